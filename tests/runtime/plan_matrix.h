// A list of plans in which any two choices that can be made together are made together: a pairwise
// covering of schedules, splits, ZeRO, recomputation, offload and the rest, on at most 8 ranks.
#pragma once

#include <string>
#include <vector>

#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

struct MatrixCase {
  std::string name;  // of the plan; unique among the cases of a list
  ModelSpec model;
  Plan plan;

  // The same training on one rank, whose losses and gradients the case must have. Where each rank
  // drops what experts have no room for among its own share of a sequence: on as many ranks as
  // share it, and no more.
  Plan Reference() const;
};

struct Covering {
  std::vector<MatrixCase> cases;
  int pairs = 0;                        // of two choices
  std::vector<std::string> impossible;  // those that no valid plan was found for
};

// Every possible pair in at least `times` plans, as far as different plans were found. Same
// arguments, same covering.
Covering CoverPairs(int times);

}  // namespace foretrain
