#include <functional>
#include <future>
#include <utility>

#include "sim/memory/linked_peak.h"
#include "sim/program/compile_unverified.h"
#include "sim/program/wait_for_sends.h"
#include "sim/program/wait_for_sums.h"
#include "sim/search/forecast_until.h"
#include "sim/simulate/simulate_until.h"

namespace foretrain {
namespace {

std::vector<PeakMemory> PeaksOf(const Program& program) {
  std::vector<PeakMemory> peaks;
  for (const RankProgram& rank : program.ranks) peaks.push_back(LinkedPeak(rank));
  return peaks;
}

// Fills in what the costs of out.program give.
Result<void> Play(const CostModel& costs, const SimulateOptions& options,
                  const std::function<bool()>& cancelled, Forecast& out) {
  FT_ASSIGN(out.costs, costs.CostsOf(out.program));
  FT_ASSIGN(out.simulation, SimulateUntil(out.program, out.costs, options, cancelled));
  out.relative_error = QualityOf(out.costs).error;
  return {};
}

void WaitWhereTheSystemDoes(const CostModel& costs, Program& program) {
  if (costs.profile().system.blocking_sends) WaitForSends(program);
  if (costs.profile().system.blocking_tp) WaitForTensorSums(program);
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
  return MakeForecastUntil(model, plan, costs, ranks, options, {});
}

Result<Forecast> MakeForecastUntil(const ModelSpec& model, const Plan& plan,
                                   const CostModel& costs, RankChoice ranks,
                                   const SimulateOptions& options,
                                   const std::function<bool()>& cancelled) {
  Forecast out;
  FT_ASSIGN(out.program, CompileUnverified(model, plan, {.ranks = ranks}, options.threads));
  if (cancelled && cancelled()) return Fail(ErrorCode::kAborted, "the forecast was cancelled");
  const SystemOptions& system = costs.profile().system;
  if (options.threads == 1 || system.blocking_sends || system.blocking_tp) {
    FT_TRY(Verify(out.program));
    WaitWhereTheSystemDoes(costs, out.program);
    FT_TRY(Play(costs, options, cancelled, out));
    out.memory = PeaksOf(out.program);
    return out;
  }
  auto verified = std::async(std::launch::async, [&out]() -> Result<void> {
    out.memory = PeaksOf(out.program);
    return Verify(out.program);
  });
  const Result<void> played = Play(costs, options, cancelled, out);
  FT_TRY(verified.get());
  FT_TRY(played);
  return out;
}

Result<Forecast> ForecastOf(Program program, const CostModel& costs,
                            const SimulateOptions& options) {
  Forecast out;
  out.program = std::move(program);
  WaitWhereTheSystemDoes(costs, out.program);
  FT_TRY(Play(costs, options, {}, out));
  out.memory = PeaksOf(out.program);
  return out;
}

}  // namespace foretrain
