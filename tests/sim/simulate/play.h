// Plays programs, and looks spans of hand-made ones up.
#pragma once

#include <gmock/gmock.h>

#include <map>
#include <string>
#include <vector>

#include "sim/simulate/simulate.h"
#include "sim/spec/cluster_spec.h"
#include "tests/sim/simulate/hand_made.h"

namespace foretrain {

inline constexpr SimulateOptions kOneStep{.min_steps = 1, .max_steps = 1};

// A failure of the test where the simulation refuses, or does not.
Simulation Play(const HandMade& made, const SimulateOptions& options = kOneStep);
Error Refused(const HandMade& made, const SimulateOptions& options = kOneStep);

// A compiled program at the rates derived for the cluster. Fails the test on an error.
Simulation Play(const Program& program, const ClusterSpec& cluster,
                const SimulateOptions& options = {});

// Seconds of ops whose name begins so; the longest match counts, and all others take no time.
using ForcedSeconds = std::map<std::string, double>;

// Seconds of one step of the plan, alone. Fails the test on an error.
double ForcedStep(const ModelSpec& model, const Plan& plan, const ClusterSpec& cluster,
                  const ForcedSeconds& forced);

// The span of an op in the first step.
Span SpanOf(const Simulation& simulation, int rank, int op);
// Its start and end in seconds, and what they should be.
std::vector<double> StartAndEnd(const Simulation& simulation, int rank, int op);
inline auto From(double start, double end) {
  return testing::ElementsAre(testing::DoubleNear(start, 1e-9), testing::DoubleNear(end, 1e-9));
}

}  // namespace foretrain
