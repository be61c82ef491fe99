#include "tests/sim/simulate/play.h"

#include "sim/cost/cost_model.h"
#include "sim/cost/derive_profile.h"

#include <gtest/gtest.h>

#include <utility>

namespace foretrain {

Simulation Play(const HandMade& made, const SimulateOptions& options) {
  auto simulation = Simulate(made.program, made.costs, options);
  EXPECT_TRUE(simulation.has_value()) << simulation.error().message;
  return simulation.has_value() ? *std::move(simulation) : Simulation{};
}

Error Refused(const HandMade& made, const SimulateOptions& options) {
  auto simulation = Simulate(made.program, made.costs, options);
  EXPECT_FALSE(simulation.has_value());
  return simulation.has_value() ? Error{} : simulation.error();
}

Span SpanOf(const Simulation& simulation, int rank, int op) {
  for (const Span& span : simulation.timeline.spans) {
    if (span.rank == rank && span.step == 0 && UnpackId(span.op).micro_batch == op &&
        (span.queue != Queue::kHost || span.op_class != OpClass::kHost)) {
      return span;
    }
  }
  ADD_FAILURE() << "no span of op " << op << " on rank " << rank;
  return {};
}

std::vector<double> StartAndEnd(const Simulation& simulation, int rank, int op) {
  const Span span = SpanOf(simulation, rank, op);
  return {static_cast<double>(span.start_ns) * 1e-9, static_cast<double>(span.end_ns) * 1e-9};
}

Simulation Play(const Program& program, const ClusterSpec& cluster,
                const SimulateOptions& options) {
  const auto model = CostModel::Make(cluster, DeriveProfile(cluster));
  EXPECT_TRUE(model.has_value()) << model.error().message;
  const auto costs = model->CostsOf(program);
  EXPECT_TRUE(costs.has_value()) << costs.error().message;
  auto simulation = Simulate(program, *costs, options);
  EXPECT_TRUE(simulation.has_value()) << simulation.error().message;
  return simulation.has_value() ? *std::move(simulation) : Simulation{};
}

}  // namespace foretrain
