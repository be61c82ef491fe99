#include <utility>

#include "sim/memory/linked_peak.h"
#include "sim/program/compile_unverified.h"
#include "sim/program/wait_for_sends.h"
#include "sim/program/wait_for_sums.h"
#include "sim/search/outline_forecast.h"
#include "sim/search/search.h"

namespace foretrain {
namespace {

// Costs and simulates `out.program`.
Result<void> Play(const CostModel& costs, const SimulateOptions& options, Forecast& out) {
  if (costs.profile().system.blocking_sends) WaitForSends(out.program);
  if (costs.profile().system.blocking_tp) WaitForTensorSums(out.program);
  FT_ASSIGN(out.costs, costs.CostsOf(out.program));
  FT_ASSIGN(out.simulation, Simulate(out.program, out.costs, options));
  out.relative_error = QualityOf(out.costs).error;
  return {};
}

}  // namespace

Result<Forecast> MakeForecast(const ModelSpec& model, const Plan& plan, const CostModel& costs,
                              RankChoice ranks, bool timeline) {
  SimulateOptions options;
  options.timeline = timeline;
  return MakeForecast(model, plan, costs, ranks, options);
}

Result<Forecast> MakeForecast(const ModelSpec& model, const Plan& plan, const CostModel& costs,
                              RankChoice ranks, const SimulateOptions& options) {
  FT_ASSIGN(Program program, Compile(model, plan, {.ranks = ranks}));
  return ForecastOf(std::move(program), costs, options);
}

Result<Forecast> ForecastOf(Program program, const CostModel& costs,
                            const SimulateOptions& options) {
  Forecast out;
  out.program = std::move(program);
  FT_TRY(Play(costs, options, out));
  for (const RankProgram& rank : out.program.ranks) {
    out.memory.push_back(LinkedPeak(rank));
  }
  return out;
}

Result<Forecast> ForecastOutline(const ModelSpec& model, const Plan& plan, const CostModel& costs,
                                 RankChoice ranks) {
  SimulateOptions options;
  options.timeline = false;
  Forecast out;
  FT_ASSIGN(out.program,
            CompileOutline(model, plan, {.ranks = ranks}, [&out](const RankProgram& rank) {
              out.memory.push_back(LinkedPeak(rank));
            }));
  const auto played = Play(costs, options, out);
  if (played.has_value()) return out;
  if (played.error().code != ErrorCode::kInfeasible) return tl::unexpected<Error>(played.error());
  // Ranks wait for each other's memory.
  FT_ASSIGN(Program program, CompileUnverified(model, plan, {.ranks = ranks}));
  return ForecastOf(std::move(program), costs, options);
}

}  // namespace foretrain
