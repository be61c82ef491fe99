// Simulates programs, and finds spans of hand-made ones.
#pragma once

#include <gmock/gmock.h>

#include <map>
#include <string>
#include <vector>

#include "sim/config/cluster/cluster_spec.h"
#include "sim/simulate/simulate.h"
#include "tests/sim/simulate/hand_made.h"

namespace foretrain {

inline const SimulateOptions kOneStep{.min_steps = 1, .max_steps = 1};

// Both fail the test if the simulation is refused (Play) or is not refused (Refused).
Simulation Play(const HandMade& made, const SimulateOptions& options = kOneStep);
Error Refused(const HandMade& made, const SimulateOptions& options = kOneStep);

// Simulates a compiled program at the rates derived for the cluster. Fails the test on an error.
Simulation Play(const Program& program, const ClusterSpec& cluster,
                const SimulateOptions& options = {});

// Seconds of ops by the start of their names. The longest match counts; all other ops take no time.
using ForcedSeconds = std::map<std::string, double>;

// Seconds of a single step of the plan. Fails the test on an error.
double ForcedStep(const ModelSpec& model, const Plan& plan, const ClusterSpec& cluster,
                  const ForcedSeconds& forced);

// The span of an op in the first step.
Span SpanOf(const Simulation& simulation, int rank, int op);
// Start and end of that span in seconds; From is the expected value.
std::vector<double> StartAndEnd(const Simulation& simulation, int rank, int op);
inline auto From(double start, double end) {
  return testing::ElementsAre(testing::DoubleNear(start, 1e-9), testing::DoubleNear(end, 1e-9));
}

}  // namespace foretrain
