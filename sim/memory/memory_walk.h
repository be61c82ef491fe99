// Live bytes of one rank at each instruction, in issue order, without compiling the plan.
// PredictPeakMemory is the maximum of these moments. Leaves out when instructions run.
#pragma once

#include <vector>

#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/program/ir/category_bytes.h"
#include "sim/program/ir/groups.h"
#include "traces/kinds.h"

namespace foretrain {

// One instruction that makes or frees bytes.
struct MemoryMoment {
  InstructionKey key;
  CategoryBytes fullest{};  // all live bytes at its peak
  CategoryBytes after{};    // all live bytes when it has ended
};

struct MemoryWalk {
  CategoryBytes state{};              // lives for the whole run
  std::vector<MemoryMoment> moments;  // in issue order
};

// Walks the rank at `at` of a valid plan of a valid model. The highest total of `fullest` equals
// PredictPeakMemory's to the byte. O(micro-batches * blocks of the stage); safe from any thread.
MemoryWalk WalkMemory(const ModelSpec& model, const Plan& plan, const RankCoordinates& at,
                      Space space = Space::kDevice);

}  // namespace foretrain
