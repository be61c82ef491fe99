// Peak memory of one rank in one space without compiling it: walks the order of its step and adds
// up what each block keeps, makes and frees. Leaves out the arena's fragmentation (Link knows it),
// library workspaces and the device context.
#pragma once

#include <cstdint>

#include "sim/program/category_bytes.h"
#include "sim/program/groups.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

struct LowerContext;  // sim/program/lower/skeleton.h

// Bytes by category at the first moment, in issue order, of the highest total. They sum to `total`.
struct PeakMemory {
  CategoryBytes bytes{};
  std::int64_t total = 0;
};

// Peak of the rank at `at` of a valid plan of a valid model. Equals the linked program's
// live bytes to the byte: a buffer lives from its first access to its last in issue order, state
// always.
//
//   at     within the plan's sizes
//   space  whose bytes are counted
//
// O(micro-batches * blocks of the stage); safe from any thread.
PeakMemory PredictPeakMemory(const ModelSpec& model, const Plan& plan, const RankCoordinates& at,
                             Space space = Space::kDevice);

// Bytes of the rank's buffers in a space that live for the whole run: state. O(buckets).
CategoryBytes StateBytes(const LowerContext& context, Space space);

// The peak of the fullest rank, and which pipeline stage it is on.
struct FullestRank {
  int pp = 0;
  PeakMemory peak;
};
FullestRank PredictFullestRank(const ModelSpec& model, const Plan& plan);

}  // namespace foretrain
