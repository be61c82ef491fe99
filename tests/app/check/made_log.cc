#include "tests/app/check/made_log.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <random>
#include <sstream>

#include "app/forecast/asked_plan.h"
#include "sim/check/slower_machine.h"
#include "sim/learn/learned_constants.h"
#include "sim/search/advice/single_changes.h"

namespace foretrain {
namespace {

struct Asked {
  std::string trainer;
  ModelSpec model;
  CostModel costs;
  Plan plan;
};

Result<Asked> AskFor(const std::string& options) {
  ModelFlags model;
  ClusterFlags cluster;
  PlanFlags plan;
  DialectFlags dialect;
  std::vector<std::string> words;
  std::istringstream text(options);
  for (std::string word; text >> word;) words.push_back(word);
  FT_TRY(ReadOptions(words, [&](Arguments& arguments) {
    model.Declare(arguments);
    cluster.Declare(arguments);
    plan.Declare(arguments);
    dialect.Declare(arguments, /*writes=*/false);
  }));
  FT_TRY(dialect.Read(LaunchFields::kAll, model, cluster, plan));
  FT_ASSIGN(AskedMachine machine, AskMachine(model, cluster, plan, dialect));
  FT_ASSIGN(const AskedPlan asked, AskPlan(machine, plan, dialect));
  return Asked{dialect.launch()->dialect, machine.context.model, machine.context.costs, asked.plan};
}

double StepOn(const Asked& asked, const DeviceProfile& profile) {
  const auto costs = CostModel::Make(asked.costs.cluster(), profile);
  EXPECT_TRUE(costs.has_value()) << costs.error().message;
  if (!costs) return 1;
  const auto forecast = ForecastPlan(asked.model, *costs, asked.plan, 2);
  EXPECT_TRUE(forecast.has_value()) << forecast.error().message;
  return forecast ? forecast->step_s : 1;
}

// A machine whose constants are drawn from what is known of them.
DeviceProfile DrawnMachine(const DeviceProfile& profile, std::mt19937& random) {
  std::normal_distribution<double> normal;
  ConstantMoves by{};
  for (std::size_t c = 0; c < kLearnedConstants; ++c) {
    const LearnedConstant& constant = LearnedConstants()[c];
    by[c] = std::clamp(constant.known_to * normal(random), constant.min, constant.max);
  }
  DeviceProfile machine = profile;
  MoveConstants(by, machine);
  return machine;
}

// Clocks fall to `lowest` of full speed with the time constant of a heat sink, from the moment when
// it is warm. Steps follow the simulated time at each clock.
std::vector<double> ThrottledSteps(const Asked& asked, const DeviceProfile& machine, double full_s,
                                   double slower, int steps) {
  constexpr int kPoints = 6;
  constexpr double kLowest = 0.4;
  std::vector<double> at(kPoints);  // seconds at clocks from 1 to kLowest
  for (int i = 0; i < kPoints; ++i) {
    const double clock = 1 - (1 - kLowest) * i / (kPoints - 1);
    at[static_cast<std::size_t>(i)] = StepOn(asked, WithSlower(machine, SlowPart::kClocks, clock));
  }
  const auto step_at = [&](double clock) {
    const double where = (1 - clock) / (1 - kLowest) * (kPoints - 1);
    const int low = std::min(kPoints - 2, static_cast<int>(where));
    const auto i = static_cast<std::size_t>(low);
    return at[i] + (where - low) * (at[i + 1] - at[i]);
  };
  const auto series = [&](double lowest) {
    std::vector<double> seconds;
    const double warm = 0.1 * steps, constant = 0.08 * steps;
    for (int i = 0; i < steps; ++i) {
      const double heat = i < warm ? 0 : 1 - std::exp(-(i - warm) / constant);
      seconds.push_back(step_at(1 - (1 - lowest) * heat));
    }
    return seconds;
  };
  const auto mean = [](const std::vector<double>& seconds) {
    double sum = 0;
    for (const double one : seconds) sum += one;
    return sum / static_cast<double>(seconds.size());
  };
  double low = kLowest, high = 1;
  for (int i = 0; i < 20; ++i) {
    const double middle = (low + high) / 2;
    (mean(series(middle)) > slower * full_s ? low : high) = middle;
  }
  return series(high);
}

// A queue of batches: `workers` make them in turn, each in a lognormal time, and hold two finished
// ones at most. `waited` gets what each step waited for its batch.
std::vector<double> StalledSteps(double step_s, double slower, int steps, std::mt19937& random,
                                 std::vector<double>& waited) {
  constexpr int kWorkers = 4;
  constexpr double kSpread = 0.25;
  std::lognormal_distribution<double> factor(-kSpread * kSpread / 2, kSpread);
  const double batch_s = slower * step_s * kWorkers;
  std::vector<double> ready(kWorkers, 0);  // when each worker is free
  std::deque<double> taken(2 * kWorkers, 0);
  std::vector<double> seconds;
  double now = 0;
  for (int i = 0; i < steps; ++i) {
    double& worker = ready[static_cast<std::size_t>(i % kWorkers)];
    // A worker starts a batch once an earlier one of its own was taken.
    worker = std::max(worker, taken.front()) + batch_s * factor(random);
    taken.pop_front();
    const double start = std::max(now, worker);
    waited.push_back(start - now);
    seconds.push_back(start - now + step_s);
    taken.push_back(start);
    now = start + step_s;
  }
  return seconds;
}

// One line of a step, and what else the trainer prints with it.
std::string LineOf(const Asked& asked, int step, int steps, double step_s, double elapsed_s) {
  const Plan& plan = asked.plan;
  const auto samples = static_cast<double>(plan.global_batch);
  const double tokens_a_device = samples * static_cast<double>(plan.sequence) / plan.World();
  if (asked.trainer == "megatron") {
    return fmt::format(
        " [2026-01-05 10:00:00] iteration {:8}/{:8} | consumed samples: {:12} | elapsed time per "
        "iteration (ms): {:.1f} | learning rate: 3.000000E-04 | global batch size: {:5} | lm loss: "
        "6.931472E+00 | loss scale: 1.0 | grad norm: 1.234 | number of skipped iterations:   0 | "
        "number of nan iterations:   0 |\n",
        step, steps, step * plan.global_batch, step_s * 1e3, plan.global_batch);
  }
  if (asked.trainer == "torchtitan") {
    const auto rate = static_cast<std::int64_t>(tokens_a_device / step_s);
    return fmt::format(
        "[rank0]:[titan] 2026-01-05 10:00:00,000 - root - INFO - \x1b[31mstep: {:2}  \x1b[32mloss: "
        " 6.9315  \x1b[33mmemory: 40.00GiB(50.00%)  \x1b[34mtps: {},{:03}  \x1b[36mtflops: "
        "200.00  \x1b[35mmfu: 20.00%\x1b[39m\n",
        step, rate / 1000, rate % 1000);
  }
  if (asked.trainer == "deepspeed") {
    return fmt::format(
        "[2026-01-05 10:00:00,000] [INFO] [timer.py:260:stop] "
        "epoch=0/micro_step={}/global_step={}, "
        "RunningAvgSamplesPerSec={:.6f}, CurrSamplesPerSec={:.6f}, MemAllocated=10.00GB, "
        "MaxMemAllocated=40.00GB\n",
        step * plan.MicroBatches(), step, samples / step_s, samples / step_s);
  }
  if (asked.trainer == "nanotron") {
    return fmt::format(
        "01/05/2026 10:00:00 [INFO|DP=0|PP=0|TP=0]: iteration: {} / {} | consumed_tokens: 10.5M | "
        "elapsed_time_per_iteration_ms: {:.3g}{} | tokens_per_sec: 52.4K | lm_loss: 6.93 | lr: "
        "0.0003\n",
        step, steps, step_s >= 1 ? step_s : step_s * 1e3, step_s >= 1 ? "K" : "");
  }
  return fmt::format("\r{:3}%|#### | {}/{} [{:02}:{:02}<01:00, {:5.2f}s/it]", 100 * step / steps,
                     step, steps, static_cast<int>(elapsed_s) / 60,
                     static_cast<int>(elapsed_s) % 60, step_s);
}

}  // namespace

MadeLog MakeLog(const MadeRun& run, int steps) {
  MadeLog log;
  const auto asked = AskFor(run.options);
  EXPECT_TRUE(asked.has_value()) << asked.error().message;
  if (!asked) return log;
  std::mt19937 random(run.seed);
  const DeviceProfile machine = DrawnMachine(asked->costs.profile(), random);
  const double step_s = StepOn(*asked, machine);
  std::vector<double> waited, seconds(static_cast<std::size_t>(steps), step_s);
  if (run.fault == RunFault::kThrottling) {
    seconds = ThrottledSteps(*asked, machine, step_s, run.slower, steps);
  }
  if (run.fault == RunFault::kDataLoader) {
    seconds = StalledSteps(step_s, run.slower, steps, random, waited);
  }
  std::normal_distribution<double> noise(0, 0.01);
  double elapsed_s = 0;
  for (int i = 0; i < steps; ++i) {
    const auto at = static_cast<std::size_t>(i);
    seconds[at] *= std::exp(noise(random));
    if (i > 0) log.step_s += seconds[at] / (steps - 1);
    const double shown_s = i == 0 ? 6 * seconds[at] : seconds[at];  // compiles and fills caches
    elapsed_s += shown_s;
    log.text += LineOf(*asked, i + 1, steps, shown_s, elapsed_s);
    if (!run.has_timers) continue;
    const double data_s = waited.empty() ? 0.002 * step_s : waited[at];
    log.text += fmt::format(
        "(min, max) time across ranks (ms):\n"
        "    forward-backward ...............................: ({:.2f}, {:.2f})\n"
        "    batch-generator ................................: ({:.2f}, {:.2f})\n",
        shown_s * 900, shown_s * 910, data_s * 900, data_s * 1e3);
  }
  return log;
}

}  // namespace foretrain
