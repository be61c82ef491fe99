// What a plan's number formats mean for the tensors of a program.
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
// With 8 bits the operands of a layer's linears are cast from 16 bits, and of what the backward
// reads for weight gradients alone the cast is kept (Micikevicius et al. 2022; Transformer Engine's
// default, which runs attention, norms and the head in 16 bits too).
#pragma once

#include "sim/program/blocks/parameters.h"
#include "sim/program/op.h"
#include "sim/spec/plan.h"

namespace foretrain {

struct Bucket;

// Of activations, their gradients, and of weights that are not fp32.
NumberFormat ActivationFormat(const Plan& plan);
// What layers' linears and their adapters compute in, and attention, head and routers.
NumberFormat ProductFormat(const Plan& plan);
NumberFormat WideProductFormat(const Plan& plan);

// Of parameters as they are kept, and of their gradients.
NumberFormat WeightFormat(const Plan& plan);
NumberFormat SumFormat(const Plan& plan);
// Whether parameters that are trained have fp32 masters beside them.
bool HasMasters(const Plan& plan);

// Of parameters as a block reads them, where they are gathered for each use or not.
NumberFormat UsedFormat(const Plan& plan, bool gathered);
NumberFormat UsedFormat(const Plan& plan, const BlockParameter& parameter);
// Of a bucket's parameters where they are gathered for each use.
NumberFormat GatheredFormat(const Plan& plan, const Bucket& bucket);

}  // namespace foretrain
