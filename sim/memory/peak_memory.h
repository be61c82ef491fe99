// Predicts the peak memory of one rank in one space without compiling the plan. It walks the order
// of the rank's step and adds up the bytes that instructions make and free. Leaves out
// fragmentation of the arena, library workspaces and the device context.
#pragma once

#include <array>
#include <cstdint>

#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/program/ir/category_bytes.h"
#include "sim/program/ir/groups.h"

namespace foretrain {

struct LowerContext;  // sim/program/lower/rank/skeleton.h

// Bytes by category at the first moment of the max total, in issue order. They sum to `total`.
struct PeakMemory {
  CategoryBytes bytes{};
  std::int64_t total = 0;
};

// Peak of the rank at `at` of a valid plan of a valid model. Equals the peak of live bytes of the
// linked program to the byte. A buffer lives from its first access to its last in issue order;
// state always lives.
//
//   at     within the plan's sizes
//   space  only its bytes are counted
//
// O(micro-batches * blocks of the stage); safe from any thread.
PeakMemory PredictPeakMemory(const ModelSpec& model, const Plan& plan, const RankCoordinates& at,
                             Space space = Space::kDevice);

// Bytes of the rank's state by space: buffers that live for the whole run. O(buckets).
std::array<CategoryBytes, kSpaceCount> StateBytes(const LowerContext& context);

// Peak of the fullest rank, and its pipeline rank.
struct FullestRank {
  int pp = 0;
  PeakMemory peak;
};
FullestRank PredictFullestRank(const ModelSpec& model, const Plan& plan);

}  // namespace foretrain
