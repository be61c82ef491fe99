#include "app/bench/simulate_bench.h"

#include <chrono>

#include "base/parallel.h"
#include "sim/program/compile_unverified.h"
#include "sim/program/ir/program.h"
#include "sim/simulate/engine.h"
#include "sim/simulate/pass_simulation.h"
#include "sim/simulate/simulate.h"
#include "sim/simulate/step_graph.h"

namespace foretrain {
namespace {

class Watch {
 public:
  // Seconds since the call before, or since it was made.
  double Lap() {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> lap = now - last_;
    last_ = now;
    return lap.count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

double CpuSeconds(std::clock_t since) {
  return static_cast<double>(std::clock() - since) / CLOCKS_PER_SEC;
}

// The phases one after another, so that each has a time of its own. The whole forecast may take
// less than their sum, because it uses all cores.
Result<SimulateTimes> MeasureParts(const ForecastContext& context, const Plan& plan) {
  SimulateTimes times;
  Watch watch;
  Forecast forecast;
  FT_ASSIGN(forecast.program, Compile(context.model, plan, {.ranks = RankChoice::kClasses}));
  times.compile_s = watch.Lap();
  FT_ASSIGN(forecast.costs, context.costs.CostsOf(forecast.program));
  times.costs_s = watch.Lap();
  SimulateOptions options;
  options.last_step = true;
  FT_ASSIGN(forecast.simulation, Simulate(forecast.program, forecast.costs, options));
  times.simulate_s = watch.Lap();
  const Metrics metrics = ForecastMetrics(context, forecast);
  times.metrics_s = watch.Lap();
  times.ranks = static_cast<int>(forecast.program.ranks.size());
  for (const RankProgram& rank : forecast.program.ranks) times.ops += rank.op_count;
  times.steps = forecast.simulation.steps;
  return times;
}

// Keeps the faster of this and the best before; the CPU time is of the same run.
Result<void> MeasureWhole(const ForecastContext& context, const Plan& plan, SimulateTimes& best) {
  SimulateOptions options;
  options.last_step = true;
  options.threads = HardwareThreads();
  const std::clock_t begin = std::clock();
  Watch watch;
  FT_ASSIGN(const Forecast forecast,
            MakeForecast(context.model, plan, context.costs,
                         {.ranks = RankChoice::kClasses, .simulate = options}));
  const Metrics metrics = ForecastMetrics(context, forecast);
  const double whole_s = watch.Lap();
  // Other work on the machine only adds time, so the shortest run is the best estimate.
  if (best.whole_s > 0 && whole_s >= best.whole_s) return {};
  best.whole_s = whole_s;
  best.cpu_s = CpuSeconds(begin);
  return {};
}

}  // namespace

Result<SimulateTimes> MeasureSimulation(const ForecastContext& context, const Plan& plan,
                                        int runs) {
  FT_ASSIGN(SimulateTimes times, MeasureParts(context, plan));
  for (int run = 0; run < runs; ++run) FT_TRY(MeasureWhole(context, plan, times));
  return times;
}

// Times the event loop alone for the first rank of each stage. One step, no timeline, so that
// nothing but events counts.
Result<StepTimes> MeasureStep(const ForecastContext& context, const Plan& plan, int runs) {
  StepTimes times;
  Watch watch;
  FT_ASSIGN(
      const Program program,
      CompileUnverified(context.model, plan, {.ranks = RankChoice::kFirst}, HardwareThreads()));
  times.compile_s = watch.Lap();
  FT_ASSIGN(const ProgramCosts costs, context.costs.CostsOf(program));
  FT_ASSIGN(const StepGraph graph, BuildStepGraph(program, costs));
  times.graph_s = watch.Lap();
  SimulateOptions options;
  options.min_steps = options.max_steps = 1;
  options.timeline = false;
  for (int run = 0; run < runs; ++run) {
    const std::clock_t begin = std::clock();
    watch.Lap();
    Engine engine(graph, costs, options);
    engine.Run();
    const double events_s = watch.Lap();
    if (engine.deadlocked()) return Fail(ErrorCode::kInfeasible, "the program deadlocks");
    times.step_s = engine.StepEnd(0);
    // Keeps the fastest run; others were disturbed by other work.
    if (run > 0 && events_s >= times.events_s) continue;
    times.events_s = events_s;
    times.cpu_s = CpuSeconds(begin);
  }
  times.ranks = static_cast<int>(program.ranks.size());
  for (const RankProgram& rank : program.ranks) {
    times.ops += rank.op_count;
    times.instructions += static_cast<std::int64_t>(rank.step.size());
  }
  return times;
}

// The best of `runs`. Simulated results are equal in each run, so any of them will do.
Result<PassTimes> MeasurePasses(const ForecastContext& context, const Plan& plan, int runs) {
  PassTimes best;
  for (int run = 0; run < runs; ++run) {
    const std::clock_t begin = std::clock();
    Watch watch;
    FT_ASSIGN(const PassSimulation passes, SimulatePasses(context.model, plan, context.costs));
    const double whole_s = watch.Lap();
    const double cpu_s = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    if (run > 0 && whole_s >= best.whole_s) continue;
    best = {0, passes.slots.end_s, whole_s, cpu_s};
    for (const auto& rank : passes.slots.spans) {
      best.slots += static_cast<std::int64_t>(rank.size());
    }
  }
  return best;
}

}  // namespace foretrain
