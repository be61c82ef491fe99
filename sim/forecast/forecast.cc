#include "sim/forecast/forecast.h"

#include <future>
#include <utility>

#include "base/return_memory.h"
#include "sim/memory/peak_memory.h"
#include "sim/program/compile_unverified.h"
#include "sim/program/link/system_waits.h"
#include "sim/simulate/step_graph.h"

namespace foretrain {
namespace {

std::vector<PeakMemory> PeaksOf(const Program& program) {
  std::vector<PeakMemory> peaks;
  for (const RankProgram& rank : program.ranks) peaks.push_back(LinkedPeak(rank));
  return peaks;
}

// Fills in costs, simulation and error of out.program.
Result<void> Play(const CostModel& costs, const SimulateOptions& options, Forecast& out) {
  FT_ASSIGN(out.costs, costs.CostsOf(out.program));
  FT_ASSIGN(out.simulation, Simulate(out.program, out.costs, options));
  out.relative_error = QualityOf(out.costs).error;
  return {};
}

// Adds the waits of systems that block on sends or tensor-parallel collectives, as the device's
// profile says.
void WaitWhereTheSystemDoes(const CostModel& costs, Program& program) {
  if (costs.profile().system.blocking_sends) WaitForSends(program);
  if (costs.profile().system.blocking_tp) WaitForTensorSums(program);
}

// With several threads, Verify and the memory peaks run while the program is simulated; all three
// only read the program. If the system adds waits, which change the program, everything runs in
// turn. An error of Verify takes precedence over one of the simulation.
Result<Forecast> ForecastVerified(Program program, const CostModel& costs,
                                  const SimulateOptions& options) {
  Forecast out;
  out.program = std::move(program);
  const SystemOptions& system = costs.profile().system;
  if (options.threads == 1 || system.blocking_sends || system.blocking_tp) {
    FT_TRY(Verify(out.program));
    WaitWhereTheSystemDoes(costs, out.program);
    FT_TRY(Play(costs, options, out));
    out.memory = PeaksOf(out.program);
    return out;
  }
  // The system may have no thread left: then it runs at get().
  auto verified = std::async(std::launch::async | std::launch::deferred, [&out]() -> Result<void> {
    out.memory = PeaksOf(out.program);
    return Verify(out.program);
  });
  const Result<void> played = Play(costs, options, out);
  FT_TRY(verified.get());
  FT_TRY(played);
  return out;
}

Result<Forecast> ForecastUnverified(Program program, const CostModel& costs,
                                    const SimulateOptions& options) {
  Forecast out;
  out.program = std::move(program);
  WaitWhereTheSystemDoes(costs, out.program);
  FT_TRY(Play(costs, options, out));
  out.memory = PeaksOf(out.program);
  return out;
}

// Keeps peak memory low: each rank's tensors are dropped once it is linked, and freed memory goes
// back to the system before each large allocation. Falls back to the whole program if the outline's
// memory sharing deadlocks.
Result<Forecast> ForecastOutline(const ModelSpec& model, const Plan& plan, const CostModel& costs,
                                 const ForecastOptions& options) {
  const auto whole = [&]() -> Result<Forecast> {
    FT_ASSIGN(Program program, CompileUnverified(model, plan, {.ranks = options.ranks}));
    return ForecastUnverified(std::move(program), costs, options.simulate);
  };
  // Ranks that are alike are linked once for all of them; an outline links each by itself.
  if (options.ranks != RankChoice::kFirst) return whole();
  Forecast out;
  FT_ASSIGN(out.program,
            CompileOutline(model, plan, {.ranks = options.ranks}, [&](const RankProgram& rank) {
              out.memory.push_back(LinkedPeak(rank));
              return out.fits = !options.fits || options.fits(rank, out.memory.back());
            }));
  if (!out.fits) return out;
  WaitWhereTheSystemDoes(costs, out.program);
  FT_ASSIGN(out.costs, costs.CostsOf(out.program));
  out.relative_error = QualityOf(out.costs).error;
  ReturnFreeMemory();  // that linking used
  FT_ASSIGN(const StepGraph graph, TakeStepGraph(out.program, out.costs));
  ReturnFreeMemory();
  Result<Simulation> played = Simulate(out.program, graph, out.costs, options.simulate);
  // The ranks wait for each other's memory; the whole program shares less.
  if (!played && played.error().code == ErrorCode::kInfeasible) return whole();
  FT_ASSIGN(out.simulation, std::move(played));
  return out;
}

}  // namespace

Result<Forecast> MakeForecast(const ModelSpec& model, const Plan& plan, const CostModel& costs,
                              const ForecastOptions& options) {
  if (options.outline) return ForecastOutline(model, plan, costs, options);
  const SimulateOptions& simulate = options.simulate;
  const auto begin = [&](ForecastPart part) {
    if (options.progress) options.progress(part);
  };
  begin(ForecastPart::kCompile);
  FT_ASSIGN(Program program,
            CompileUnverified(model, plan, {.ranks = options.ranks}, simulate.threads));
  if (simulate.cancelled && simulate.cancelled()) {
    return Fail(ErrorCode::kAborted, "the forecast was cancelled");
  }
  begin(ForecastPart::kSimulate);
  return ForecastVerified(std::move(program), costs, simulate);
}

}  // namespace foretrain
