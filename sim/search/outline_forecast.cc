#include "sim/search/outline_forecast.h"

#include <utility>

#include "sim/memory/linked_peak.h"
#include "sim/program/compile_unverified.h"
#include "sim/program/wait_for_sends.h"
#include "sim/program/wait_for_sums.h"
#include "sim/search/return_memory.h"
#include "sim/simulate/step_graph.h"

namespace foretrain {

Result<Forecast> ForecastOutline(const ModelSpec& model, const Plan& plan, const CostModel& costs,
                                 RankChoice ranks) {
  FT_ASSIGN(std::optional<Forecast> forecast,
            ForecastOutline(model, plan, costs, ranks,
                            [](const RankProgram&, const PeakMemory&) { return true; }));
  return *std::move(forecast);
}

Result<std::optional<Forecast>> ForecastOutline(const ModelSpec& model, const Plan& plan,
                                                const CostModel& costs, RankChoice ranks,
                                                const RankFits& fits) {
  SimulateOptions options;
  options.timeline = false;
  const auto whole = [&]() -> Result<std::optional<Forecast>> {
    FT_ASSIGN(Program program, CompileUnverified(model, plan, {.ranks = ranks}));
    FT_ASSIGN(Forecast forecast, ForecastOf(std::move(program), costs, options));
    return std::optional(std::move(forecast));
  };
  // Ranks that are alike are linked once together; an outline links each.
  if (ranks != RankChoice::kFirst) return whole();
  Forecast out;
  bool all_fit = true;
  FT_ASSIGN(out.program,
            CompileOutline(model, plan, {.ranks = ranks}, [&](const RankProgram& rank) {
              out.memory.push_back(LinkedPeak(rank));
              return all_fit = fits(rank, out.memory.back());
            }));
  if (!all_fit) return std::optional<Forecast>();
  if (costs.profile().system.blocking_sends) WaitForSends(out.program);
  if (costs.profile().system.blocking_tp) WaitForTensorSums(out.program);
  FT_ASSIGN(out.costs, costs.CostsOf(out.program));
  out.relative_error = QualityOf(out.costs).error;
  ReturnFreeMemory();  // of linking
  FT_ASSIGN(const StepGraph graph, TakeStepGraph(out.program, out.costs));
  ReturnFreeMemory();
  Result<Simulation> played = Simulate(out.program, graph, out.costs, options);
  // Ranks wait for each other's memory.
  if (!played && played.error().code == ErrorCode::kInfeasible) return whole();
  FT_ASSIGN(out.simulation, std::move(played));
  return std::optional(std::move(out));
}

}  // namespace foretrain
