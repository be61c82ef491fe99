// Plays a hand-made program once, and looks its spans up.
#pragma once

#include <gmock/gmock.h>

#include <vector>

#include "sim/simulate/simulate.h"
#include "tests/sim/simulate/hand_made.h"

namespace foretrain {

inline constexpr SimulateOptions kOneStep{.min_steps = 1, .max_steps = 1};

// A failure of the test where the simulation refuses, or does not.
Simulation Play(const HandMade& made, const SimulateOptions& options = kOneStep);
Error Refused(const HandMade& made, const SimulateOptions& options = kOneStep);

// The span of an op in the first step.
Span SpanOf(const Simulation& simulation, int rank, int op);
// Its start and end in seconds, and what they should be.
std::vector<double> StartAndEnd(const Simulation& simulation, int rank, int op);
inline auto From(double start, double end) {
  return testing::ElementsAre(testing::DoubleNear(start, 1e-9), testing::DoubleNear(end, 1e-9));
}

}  // namespace foretrain
