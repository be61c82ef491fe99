// The defaults of a search: plans that it compares, number format, sequence and batch.
#pragma once

#include "sim/config/cluster/cluster_spec.h"
#include "sim/config/model/model_spec.h"
#include "sim/search/space/space.h"

namespace foretrain {

// The plans of `ranks` ranks of the cluster for the model. They cover every split, ZeRO stage,
// recomputation, and kind of tensor, context and expert parallelism. Schedules are 1F1B,
// interleaved, ZB-H1, ZB-V and GPipe, with experts also DualPipeV. State and activations move to
// the host only in plans that do not fit otherwise. On a CPU, whose ranks share memory and cores,
// only what helps there: dp, tp, pp, 1F1B, ZB-H1, GPipe, ZeRO 0, 1 and 3, full recomputation.
// `base` gives the sequence and batch of the plans.
SearchSpace DefaultSpace(const ModelSpec& model, const ClusterSpec& cluster, int ranks,
                         const Plan& base);

// Default number format: bf16, otherwise fp16, if the device is faster with it than with fp32; fp32
// on a CPU.
Precision DefaultPrecision(const ClusterSpec& cluster);
// Default sequence: the model's maximum, at most 1024 tokens.
std::int64_t DefaultSequence(const ModelSpec& model);
// Default batch of samples of `sequence` tokens: a power of two per rank that fills the largest
// pipeline of `ranks` ranks. It stops at four million tokens, and is at least one sample per rank.
std::int64_t DefaultBatch(int ranks, std::int64_t sequence);

}  // namespace foretrain
