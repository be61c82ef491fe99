#include "app/bench/forecast_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>

#include "app/cli/flags/plan_flags.h"
#include "base/units.h"
#include "kernels/cpu/cpu_device.h"
#include "runtime/calibrate/benchmark_data.h"
#include "runtime/calibrate/reference_gemm.h"
#include "runtime/run/trainer.h"
#include "sim/cost/cost_model.h"
#include "sim/forecast/forecast.h"

namespace foretrain {
namespace {

constexpr double kDriftSeconds = 0.5;

struct Row {
  const char* name;
  int dp, tp, pp;
  std::int64_t micro_batch;
  ScheduleKind schedule = ScheduleKind::k1f1b;
  int zero = 0;
  RecomputeKind recompute = RecomputeKind::kNone;
  double clip = 0;
};

// Ten plans on one or two ranks: each kind of parallelism, ZeRO, recomputation and two schedules.
constexpr std::array kRows = {
    Row{"one-rank", 1, 1, 1, 2},
    Row{"one-rank-small", 1, 1, 1, 1, ScheduleKind::k1f1b, 0, RecomputeKind::kNone, 1.0},
    Row{"one-rank-recompute", 1, 1, 1, 4, ScheduleKind::k1f1b, 0, RecomputeKind::kFull},
    Row{"dp2", 2, 1, 1, 2},
    Row{"dp2-small", 2, 1, 1, 1, ScheduleKind::k1f1b, 0, RecomputeKind::kNone, 1.0},
    Row{"dp2-zero1", 2, 1, 1, 2, ScheduleKind::k1f1b, 1},
    Row{"dp2-zero3", 2, 1, 1, 2, ScheduleKind::k1f1b, 3},
    Row{"tp2", 1, 2, 1, 2},
    Row{"pp2-1f1b", 1, 1, 2, 1},
    Row{"pp2-gpipe", 1, 1, 2, 2, ScheduleKind::kGpipe},
};

// Windows and op times of the steps that count.
class BenchSink : public RunSink {
 public:
  // Sums by class; spans themselves are not kept, so memory does not grow with the run.
  void OnSpans(std::span<const Span> spans) override {
    for (const Span& span : spans) {
      if (span.step < kBenchWarmUp) continue;
      busy_ns_[static_cast<std::size_t>(span.op_class)] += span.end_ns - span.start_ns;
    }
  }
  // A step ends when its last rank ends.
  void OnStepWindow(const StepWindow& window) override {
    std::int64_t& end_ns = ends_ns_[window.step];
    end_ns = std::max(end_ns, window.end_ns);
  }

  // The median time between the ends of two steps, of all ranks.
  double StepSeconds() const {
    std::vector<std::int64_t> steps;
    std::int64_t before = -1;
    for (const auto& [step, end_ns] : ends_ns_) {
      if (step >= kBenchWarmUp) steps.push_back(end_ns - before);
      before = end_ns;
    }
    return SpreadOf(std::move(steps)).median;
  }
  double BusySeconds(OpClass op_class, std::int64_t steps) const {
    return SecondsFromNs(busy_ns_[static_cast<std::size_t>(op_class)]) / static_cast<double>(steps);
  }

 private:
  std::map<std::int32_t, std::int64_t> ends_ns_;
  std::array<std::int64_t, kOpClassCount> busy_ns_{};
};

// Classes with no time on either side are left out.
std::vector<ClassError> ClassErrors(const Simulation& simulation, const BenchSink& sink,
                                    std::int64_t steps) {
  std::vector<ClassError> classes;
  for (int i = 0; i < kOpClassCount; ++i) {
    const auto op_class = static_cast<OpClass>(i);
    ClassError error{op_class, 0, sink.BusySeconds(op_class, steps)};
    for (const RankSummary& rank : simulation.ranks) {
      error.predicted_s += rank.busy_s[static_cast<std::size_t>(i)];
    }
    if (error.predicted_s > 0 || error.measured_s > 0) classes.push_back(error);
  }
  return classes;
}

}  // namespace

// Everything but the columns of kRows is the same in all plans.
std::vector<BenchPlan> BenchPlans() {
  std::vector<BenchPlan> plans;
  for (const Row& row : kRows) {
    Plan plan;
    plan.dp = row.dp;
    plan.tp = row.tp;
    plan.pp = row.pp;
    plan.sequence = 128;
    plan.global_batch = 8;
    plan.micro_batch = row.micro_batch;
    plan.schedule = row.schedule;
    plan.zero_stage = row.zero;
    plan.recompute = row.recompute;
    plan.clip_norm = row.clip;
    plans.push_back({row.name, plan});
  }
  return plans;
}

double BenchResult::Spread() const { return std::abs(measured_s[0] - measured_s[1]) / Measured(); }

// Forecasts once, then trains twice with a measurement of drift before, between and after. The
// forecast is made before the first training, so no measurement can enter it.
Result<BenchResult> RunBenchPlan(const ModelSpec& model, const BenchPlan& plan,
                                 const DeviceProfile& profile, const BenchOptions& options) {
  // The cluster is this machine with as many ranks as the plan has.
  const Machine machine = ThisMachine();
  const int ranks = plan.plan.World();
  FT_ASSIGN(const ClusterSpec cluster, LocalCluster(machine.cores, machine.memory_bytes, ranks));
  FT_ASSIGN(const CostModel costs, CostModel::Make(cluster, profile));
  FT_ASSIGN(Forecast forecast,
            MakeForecast(model, plan.plan, costs, {.simulate = {.timeline = false}}));
  BenchResult result;
  result.plan = plan;
  result.predicted_s = forecast.simulation.step_s;

  RealClock clock;
  const FtDeviceApi& api = CpuDeviceApi();
  const auto drift = [&] { return MeasureDrift(api, 0, clock, profile, ranks, kDriftSeconds); };
  TrainJob job;
  job.program = std::make_shared<const Program>(std::move(forecast.program));
  job.steps = options.steps + kBenchWarmUp;
  FT_ASSIGN(result.drift[0], drift());
  // Two runs of the same plan: their difference is the noise that no forecast can beat.
  for (int run = 0; run < 2; ++run) {
    RandomTokens tokens(model.vocab);
    BenchSink sink;
    FT_ASSIGN(const RunSummary summary, Train(job, api, clock, tokens, sink, options.stop));
    if (summary.stopped) return Fail(ErrorCode::kAborted, "bench was stopped");
    result.measured_s[run] = sink.StepSeconds();
    FT_ASSIGN(result.drift[run + 1], drift());
    result.classes = ClassErrors(forecast.simulation, sink, options.steps);
  }
  return result;
}

// Median of the absolute errors, so that one bad plan does not decide it.
double MedianError(const std::vector<BenchResult>& results, bool corrected) {
  std::vector<double> errors;
  for (const BenchResult& result : results) {
    errors.push_back(std::abs(corrected ? result.CorrectedError() : result.Error()));
  }
  std::sort(errors.begin(), errors.end());
  const std::size_t half = errors.size() / 2;
  return errors.size() % 2 == 1 ? errors[half] : (errors[half - 1] + errors[half]) / 2;
}

// Names machine, date and command, so that a reader can judge and repeat the table.
std::string BenchMarkdown(const std::vector<BenchResult>& results, const DeviceProfile& profile,
                          int steps) {
  std::string text = fmt::format(
      "{}, profile of {}; {} steps, each plan run twice. Error: forecast over measured, minus one; "
      "drift: reference GEMM now over then.\n\n"
      "| plan | | forecast | measured | spread of two runs | step time error | machine drift | "
      "error without drift |\n"
      "|---|---|---:|---:|---:|---:|---:|---:|\n",
      profile.machine, profile.date, steps);
  for (const BenchResult& r : results) {
    text += fmt::format("| {} | {} | {} | {} | {:.1f} % | {:+.1f} % | {:.3f} | {:+.1f} % |\n",
                        r.plan.name, Describe(r.plan.plan), FormatSeconds(r.predicted_s),
                        FormatSeconds(r.Measured()), 100 * r.Spread(), 100 * r.Error(), r.Drift(),
                        100 * r.CorrectedError());
  }
  text += fmt::format(
      "\nMedian step time error {:.1f} %, without drift {:.1f} %. Repeat with `foretrain bench "
      "--forecast "
      "--steps {}`.\n",
      100 * MedianError(results, false), 100 * MedianError(results, true), steps);
  return text;
}

}  // namespace foretrain
