// Lessons of measured runs in a profile: moves of its constants, and how well they are known.
#pragma once

#include <string>
#include <vector>

namespace foretrain {

// Matrices and vectors are in the order of `constants` (sim/learn/learned_constants.h has names).
struct LearnedState {
  int runs = 0;        // measured runs that the profile was learned from
  std::string preset;  // system that ran them; empty: foretrain's own
  std::vector<std::string> constants;
  std::vector<double> moves;       // already applied to the profile
  std::vector<double> covariance;  // of the moves, row by row
  double plan_error = 0;  // of one plan alone, one standard deviation of ln(measured / forecast)

  bool operator==(const LearnedState&) const = default;
};

}  // namespace foretrain
