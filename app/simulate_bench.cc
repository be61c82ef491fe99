#include "app/simulate_bench.h"

#include <chrono>
#include <ctime>

#include "sim/program/program.h"
#include "sim/simulate/pass_simulation.h"
#include "sim/simulate/simulate.h"

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

Result<SimulateTimes> MeasureOnce(const ForecastContext& context, const Plan& plan) {
  SimulateTimes times;
  const std::clock_t begin = std::clock();
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
  times.whole_s = times.compile_s + times.costs_s + times.simulate_s + times.metrics_s;
  times.cpu_s = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  times.ranks = static_cast<int>(forecast.program.ranks.size());
  for (const RankProgram& rank : forecast.program.ranks) times.ops += rank.op_count;
  times.steps = forecast.simulation.steps;
  return times;
}

}  // namespace

Result<SimulateTimes> MeasureSimulation(const ForecastContext& context, const Plan& plan,
                                        int runs) {
  FT_ASSIGN(SimulateTimes best, MeasureOnce(context, plan));
  for (int run = 1; run < runs; ++run) {
    FT_ASSIGN(const SimulateTimes times, MeasureOnce(context, plan));
    if (times.whole_s < best.whole_s) best = times;
  }
  return best;
}

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
