#include <algorithm>
#include <vector>

#include "sim/memory/linked_peak.h"
#include "sim/program/wait_for_sends.h"
#include "sim/search/search.h"

namespace foretrain {
namespace {

// Errors of one device's ops stem from the same curves, so they do not average out: the mean
// weighted by time bounds the step's.
double RelativeError(const ProgramCosts& costs) {
  double weighted = 0, total = 0;
  for (const auto& rows : costs.row_of) {
    for (const std::int32_t row : rows) {
      const double seconds = costs.Alone(row);
      weighted += seconds * costs.error[static_cast<std::size_t>(row)];
      total += seconds;
    }
  }
  return total > 0 ? weighted / total : 0;
}

}  // namespace

Result<Forecast> MakeForecast(const ModelSpec& model, const Plan& plan, const CostModel& costs,
                              RankChoice ranks, bool timeline) {
  Forecast out;
  FT_ASSIGN(out.program, Compile(model, plan, {.ranks = ranks}));
  if (costs.profile().system.blocking_sends) WaitForSends(out.program);
  FT_ASSIGN(out.costs, costs.CostsOf(out.program));
  SimulateOptions options;
  options.timeline = timeline;
  FT_ASSIGN(out.simulation, Simulate(out.program, out.costs, options));
  for (const RankProgram& rank : out.program.ranks) {
    out.memory.push_back(LinkedPeak(rank));
  }
  out.relative_error = RelativeError(out.costs);
  return out;
}

}  // namespace foretrain
