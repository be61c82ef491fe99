// A pairwise covering of plans: any two choices that are valid together occur together, among
// schedules, splits, ZeRO, recomputation, offload and the rest, on at most 8 ranks.
#pragma once

#include <string>
#include <vector>

#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"

namespace foretrain {

struct MatrixCase {
  std::string name;  // of the plan; unique within a list
  ModelSpec model;
  Plan plan;

  // The same training on one rank, whose losses and gradients the case must reproduce. If each rank
  // drops experts' overflow within its own part of a sequence, the reference uses as many ranks as
  // share it.
  Plan Reference() const;
};

struct Covering {
  std::vector<MatrixCase> cases;
  int pairs = 0;                        // number of pairs of choices
  std::vector<std::string> impossible;  // pairs for which no valid plan was found
};

// Covers every possible pair in at least `times` plans, if enough different plans were found.
// Deterministic.
Covering CoverPairs(int times);

}  // namespace foretrain
