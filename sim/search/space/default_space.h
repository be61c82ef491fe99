// The defaults of a search: plans that it compares, number format, sequence and batch.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

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

// Sizes of micro-batches that a search tries: powers of two up to 32, and three times these if
// three divides the batch.
std::vector<std::int64_t> MicroBatchesOf(std::int64_t global_batch);

// State that may move to the host besides optimizer state and activations, for spaces without a
// plan that fits. Each level costs more time than the one before.
enum class OffloadLevel : std::uint8_t { kNoMore, kGradients, kParameters };
inline constexpr std::array kOffloadLevels = {OffloadLevel::kNoMore, OffloadLevel::kGradients,
                                              OffloadLevel::kParameters};

// Moves optimizer state, gradients and, at kParameters, parameters to the host in every plan of the
// space, which is one of accelerators. kNoMore changes nothing.
void OffloadMore(OffloadLevel level, SearchSpace& space);

// Default number format: bf16, otherwise fp16, if the device is faster with it than with fp32; fp32
// on a CPU.
Precision DefaultPrecision(const ClusterSpec& cluster);
// Default sequence: the one that the model is made for, at most kDefaultSequenceCap tokens. Longer
// contexts are mostly trained in a short last phase.
std::int64_t DefaultSequence(const ModelSpec& model);
inline constexpr std::int64_t kDefaultSequenceCap = 8192;
// Default batch of samples of `sequence` tokens: a power of two per rank that fills the largest
// pipeline of `ranks` ranks. It stops at four million tokens, and is at least one sample per rank.
std::int64_t DefaultBatch(int ranks, std::int64_t sequence);

}  // namespace foretrain
