#include "tests/sim/simulate/play.h"

#include "sim/cost/cost_model.h"
#include "sim/cost/profile/derive_profile.h"
#include "tests/sim/cost/profiles.h"

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

namespace {

double SecondsOf(const std::string& name, const ForcedSeconds& forced) {
  double seconds = 0;
  std::size_t longest = 0;
  for (const auto& [prefix, s] : forced) {
    if (!name.starts_with(prefix) || prefix.size() < longest) continue;
    longest = prefix.size();
    seconds = s;
  }
  return seconds;
}

}  // namespace

double ForcedStep(const ModelSpec& model, const Plan& plan, const ClusterSpec& cluster,
                  const ForcedSeconds& forced) {
  const auto program = Compile(model, plan);
  EXPECT_TRUE(program.has_value()) << program.error().message;
  const auto costs_of = CostModel::Make(cluster, IdealProfile());
  EXPECT_TRUE(costs_of.has_value()) << costs_of.error().message;
  auto costs = costs_of->CostsOf(*program);
  EXPECT_TRUE(costs.has_value()) << costs.error().message;
  for (std::size_t r = 0; r < program->ranks.size(); ++r) {
    const RankProgram& rank = program->ranks[r];
    const std::vector<OpRef> refs = OpRefs(*program, rank);
    for (std::size_t i = 0; i < refs.size(); ++i) {
      const auto row = static_cast<std::size_t>(costs->row_of[r][i]) * costs->levels.size();
      for (std::size_t level = 0; level < costs->levels.size(); ++level) {
        costs->seconds[row + level] = SecondsOf(OpAt(*program, rank, refs[i]).name, forced);
      }
    }
  }
  const auto played = Simulate(*program, *costs, kOneStep);
  EXPECT_TRUE(played.has_value()) << played.error().message;
  return played->first_step_s;
}

}  // namespace foretrain
