// What a system with a caching allocator reserves of a device on one rank: its buffers of a step in
// issue order, and what its kernels and libraries hold beside the program, served by
// CachingAllocatorModel. Leaves out the device's context and communicators (device_overhead.h).
#pragma once

#include <cstdint>

#include "base/result.h"
#include "sim/program/groups.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"
#include "sim/spec/system_options.h"

namespace foretrain {

struct ReservedMemory {
  std::int64_t allocated = 0;  // peaks, of bytes in use
  std::int64_t reserved = 0;   // and of the allocator's segments
};

// Peaks of the rank at `at` over two steps of a valid plan of a valid model.
//
//   system    eager kernels hold what fused ones do not (named at SystemOptions); gradients of a
//             micro-batch, flat copies and late frees likewise
//   capacity  bytes that segments may take; 0: any
//
// No more than 2 pp micro-batches are played: the pipeline's fullest moment and one round on.
// O(ops of them); safe from any thread.
ReservedMemory PredictReserved(const ModelSpec& model, const Plan& plan, const RankCoordinates& at,
                               const SystemOptions& system, std::int64_t capacity);

}  // namespace foretrain
