#include <utility>

#include "sim/memory/linked_peak.h"
#include "sim/program/wait_for_sends.h"
#include "sim/program/wait_for_sums.h"
#include "sim/search/search.h"

namespace foretrain {
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
  if (costs.profile().system.blocking_sends) WaitForSends(out.program);
  if (costs.profile().system.blocking_tp) WaitForTensorSums(out.program);
  FT_ASSIGN(out.costs, costs.CostsOf(out.program));
  FT_ASSIGN(out.simulation, Simulate(out.program, out.costs, options));
  for (const RankProgram& rank : out.program.ranks) {
    out.memory.push_back(LinkedPeak(rank));
  }
  out.relative_error = QualityOf(out.costs).error;
  return out;
}

}  // namespace foretrain
