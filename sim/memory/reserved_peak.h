// Predicts the device memory that a system with a caching allocator reserves on one rank. It
// replays the buffers of a step in issue order through CachingAllocatorModel, with the tensors that
// kernels and libraries hold besides the program. Leaves out contexts and communicators
// (device_overhead.h).
#pragma once

#include <cstdint>

#include "base/result.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/config/plan/system_options.h"
#include "sim/program/ir/groups.h"

namespace foretrain {

struct ReservedMemory {
  std::int64_t allocated = 0;  // peak of bytes in use
  std::int64_t reserved = 0;   // peak of the allocator's segments
};

// Peaks of the rank at `at` over two steps of a valid plan of a valid model.
//
//   system    options that name the additional tensors: eager kernels, gradients of a micro-batch,
//             flat copies, late frees (SystemOptions)
//   capacity  bytes that segments may take; 0: no limit
//
// At most 2 pp micro-batches per chunk are replayed: the pipeline's fullest moment and one more
// round. O(ops of them); safe from any thread.
ReservedMemory PredictReserved(const ModelSpec& model, const Plan& plan, const RankCoordinates& at,
                               const SystemOptions& system, std::int64_t capacity);

}  // namespace foretrain
