// Number formats that a plan gives to the tensors of a program.
//
//                      precision fp32, tf32   16 bits                    8 bits or fewer
//   activations        fp32                   fp16, bf16                 bf16
//   layers' products   fp32, tf32             as activations             fp8, fp8-block, fp4
//   attention, head    fp32, tf32             as activations             bf16
//   parameters         fp32                   as activations, or fp32 that is cast for each use
//   their gradients    fp32                   fp32, or as activations
//   always fp32: biases by which routers choose, log-sum-exp, norms' mean and rstd, routers'
//   probabilities, logits in the loss
//
// With 8 bits the operands of a layer's linears are cast from 16 bits. If the backward reads a
// tensor for weight gradients alone, its cast is kept (Micikevicius et al. 2022; Transformer
// Engine's default, which runs attention, norms and the head in 16 bits too).
#pragma once

#include "sim/config/plan/plan.h"
#include "sim/program/blocks/parameters.h"
#include "sim/program/ir/op.h"

namespace foretrain {

struct Bucket;

// Format of activations, their gradients, and weights that are not fp32.
NumberFormat ActivationFormat(const Plan& plan);
// ProductFormat: layers' linears and their adapters. WideProductFormat: attention, head and
// routers.
NumberFormat ProductFormat(const Plan& plan);
NumberFormat WideProductFormat(const Plan& plan);

// Format of parameters as they are stored, and of their gradients.
NumberFormat WeightFormat(const Plan& plan);
NumberFormat SumFormat(const Plan& plan);
// Format of logits and their gradient.
NumberFormat LogitFormat(const Plan& plan);
// Whether trained parameters have fp32 master copies.
bool HasMasters(const Plan& plan);

// Format of parameters as a block reads them, gathered for each use or not.
NumberFormat UsedFormat(const Plan& plan, bool gathered);
NumberFormat UsedFormat(const Plan& plan, const BlockParameter& parameter);
// Format of a bucket's parameters if they are gathered for each use.
NumberFormat GatheredFormat(const Plan& plan, const Bucket& bucket);

}  // namespace foretrain
