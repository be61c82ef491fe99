// Live bytes of one rank instruction by instruction, in issue order, without compiling it: what
// peak_memory.h takes the highest of. Leaves out when instructions run.
#pragma once

#include <vector>

#include "sim/program/category_bytes.h"
#include "sim/program/groups.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"
#include "traces/kinds.h"

namespace foretrain {

// One instruction that makes or frees bytes.
struct MemoryMoment {
  InstructionKey key;
  CategoryBytes fullest{};  // while it runs: all that is live then
  CategoryBytes after{};
};

struct MemoryWalk {
  CategoryBytes state{};              // before the first: it lives for the whole run
  std::vector<MemoryMoment> moments;  // in issue order
};

// Of the rank at `at` of a valid plan of a valid model. The highest total of `fullest` is that of
// PredictPeakMemory, to the byte. O(micro-batches * blocks of the stage); safe from any thread.
MemoryWalk WalkMemory(const ModelSpec& model, const Plan& plan, const RankCoordinates& at,
                      Space space = Space::kDevice);

}  // namespace foretrain
