// The plans that a search compares where nobody says otherwise.
#pragma once

#include "sim/search/space.h"
#include "sim/spec/cluster_spec.h"
#include "sim/spec/model_spec.h"

namespace foretrain {

// Plans of `ranks` ranks of the cluster for the model: every split, schedule that keeps steps apart,
// ZeRO stage, recomputation, way of tensor, context and expert parallelism and, where state or
// activations do not fit, their offload to the host. On a CPU, whose ranks share memory and cores,
// what helps there: dp, tp, pp, 1F1B, ZB-H1, GPipe, ZeRO 0, 1 and 3, full recomputation.
// `base` has the sequence and batch that the plans train.
SearchSpace DefaultSpace(const ModelSpec& model, const ClusterSpec& cluster, int ranks,
                         const Plan& base);

// What one trains in where nobody says otherwise: bf16 or else fp16 where the device is faster at
// it, on a CPU fp32.
Precision DefaultPrecision(const ClusterSpec& cluster);
// The sequence of a model where nobody says otherwise: what it was made for, up to 1024.
std::int64_t DefaultSequence(const ModelSpec& model);
// A batch of samples of `sequence` tokens that fills the largest pipeline of `ranks` ranks, or four
// million tokens where that is less, and at least a sample a rank.
std::int64_t DefaultBatch(int ranks, std::int64_t sequence);

}  // namespace foretrain
