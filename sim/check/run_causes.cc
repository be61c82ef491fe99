#include "sim/check/run_causes.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "base/units.h"
#include "sim/check/slower_machine.h"
#include "sim/config/launch/launch_facts.h"
#include "sim/config/plan/plan_fields.h"
#include "sim/config/plan/plan_values.h"
#include "sim/config/rules/refuse.h"
#include "sim/search/evaluate/evaluator.h"

namespace foretrain {
namespace {

constexpr double kWorthNaming = 0.01;  // of the measured step
// Pauses for checkpoints and evaluation are rare and long; a loader that is late holds up a steady
// share of the steps.
constexpr double kRareShare = 0.04;
constexpr int kRareEvery = 20;  // steps

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Seconds of a step that the trainer's own timers give to a part; 0: it has none.
double TimedSeconds(const TrainerLog& log, LogPart part) {
  double sum = 0;
  for (const LogTimer& timer : log.timers) {
    if (timer.part == part) sum += Median(timer.seconds);
  }
  return sum;
}

// Steps between two lines of the log, as most lines have it.
std::int64_t StepsOfALine(const TrainerLog& log) {
  std::vector<double> gaps;
  for (std::size_t i = 1; i < log.steps.size(); ++i) {
    const std::int64_t gap = log.steps[i].step - log.steps[i - 1].step;
    if (gap > 0) gaps.push_back(static_cast<double>(gap));
  }
  return gaps.empty() ? 1 : static_cast<std::int64_t>(Median(std::move(gaps)));
}

// "save-interval 100" if a key of the launch file says that the run pauses every `steps` steps.
std::string PauseKey(const LaunchAccount& account, std::int64_t steps) {
  constexpr std::array<std::string_view, 4> kWords = {"save", "eval", "checkpoint", "validation"};
  for (const LaunchKey& key : account.without_effect) {
    const std::string name = ToLower(key.key);
    const bool is_pause = std::any_of(kWords.begin(), kWords.end(), [&](std::string_view word) {
      return name.find(word) != std::string::npos;
    });
    const auto every = ParseInt("", key.value, 1, 1'000'000'000);
    if (is_pause && every && *every == steps) return key.key + " " + key.value;
  }
  return "";
}

class RunChecker {
 public:
  explicit RunChecker(const RunInput& input) : in_(input) {}

  Result<RunCheck> Check() {
    const std::vector<double> seconds = StepSecondsOf(*in_.log, in_.plan);
    if (seconds.empty()) {
      return Refuse("{}: has no time of a step; give a log with {} lines", in_.log->file,
                    in_.log->title);
    }
    out_.series = SplitSteps(seconds);
    out_.measured_s = out_.series.mean_s;
    out_.forecast_s = in_.plans->as_is.step_s;
    out_.interval = in_.plans->as_is.interval;
    out_.attainable_s =
        in_.plans->causes.empty() ? out_.forecast_s : in_.plans->causes.back().step_s;
    out_.verdict = out_.measured_s > out_.interval.high_s  ? RunVerdict::kSlower
                   : out_.measured_s < out_.interval.low_s ? RunVerdict::kFaster
                                                           : RunVerdict::kAsForecast;
    AddSeries();
    AddTimers();
    AddPlans();
    AddRest();
    Rank();
    return std::move(out_);
  }

 private:
  void Add(CauseKind kind, Evidence evidence, std::string text, double seconds,
           std::vector<std::string> helps) {
    if (seconds < kWorthNaming * out_.measured_s) return;
    out_.causes.push_back({kind, evidence, std::move(text), seconds, 0, std::move(helps)});
  }

  // Slow steps and a rising level.
  void AddSeries() {
    const StepSeries& series = out_.series;
    if (series.drift_s > 0) {
      Add(CauseKind::kThrottling, Evidence::kLog,
          fmt::format("steps take {} at best and {} more on average, and become slower gradually: "
                      "clocks that fall with heat or power do that",
                      FormatSeconds(series.base_s), FormatSeconds(series.drift_s)),
          series.drift_s, {"compare clocks and temperatures of the GPUs (nvidia-smi -q -d CLOCK)"});
    }
    if (series.spikes == 0) return;
    const std::int64_t every = series.spike_every * StepsOfALine(*in_.log);
    const std::string slow =
        fmt::format("{} of {} lines are slow, {}", series.spikes, series.points - series.warm_up,
                    every > 0 ? fmt::format("every {} steps", every) : "at irregular steps");
    const std::string key = every > 0 ? PauseKey(*in_.account, every) : "";
    const bool is_rare = series.spike_share() < kRareShare && (every == 0 || every >= kRareEvery);
    if (!key.empty() || is_rare) {
      Add(CauseKind::kPauses, Evidence::kLog, key.empty() ? slow : slow + ", as " + key + " says",
          series.spikes_s, {"save and evaluate less often, or asynchronously"});
      return;
    }
    loader_s_ = series.spikes_s;
    loader_text_ = slow + ", as if they waited for data";
  }

  // Times of the trainer itself. Waits for data are in the series too.
  void AddTimers() {
    const double data_s = TimedSeconds(*in_.log, LogPart::kData);
    if (data_s > loader_s_) {
      loader_s_ = data_s;
      loader_text_ =
          fmt::format("the trainer waits {} of a step for its data", FormatSeconds(data_s));
      timed_s_ = data_s;
    }
    if (loader_s_ > 0) {
      Add(CauseKind::kDataLoader, Evidence::kLog, loader_text_, loader_s_,
          {"use more workers of the data loader, and faster storage"});
    }
    const double computed_s = TimedSeconds(*in_.log, LogPart::kCompute);
    if (computed_s == 0) return;
    // Timers of a pass hold its communication too. That of the update has its own timer.
    const ClassSeconds& classes = in_.plans->as_is.classes;
    const double expected_s = classes.compute_s + classes.exposed_communication_s;
    const double slower_s = computed_s - data_s - expected_s - out_.series.drift_s;
    if (slower_s < kWorthNaming * out_.measured_s) return;
    Add(CauseKind::kSlowCompute, Evidence::kLog,
        fmt::format("forward and backward take {}, {} more than the forecast",
                    FormatSeconds(computed_s - data_s), FormatSeconds(slower_s)),
        std::min(slower_s, Surplus()), {"compare clocks of the GPUs (nvidia-smi -q -d CLOCK)"});
    timed_s_ += std::min(slower_s, Surplus());
  }

  void AddPlans() {
    for (const PlanCause& cause : in_.plans->causes) {
      Add(cause.kind, Evidence::kForecast, std::string(TextOf(cause.kind)), cause.saved_s,
          cause.keys);
    }
  }

  // Time above the forecast that neither drift nor slow steps explain.
  double Surplus() const { return std::max(0.0, out_.series.base_s - out_.forecast_s); }

  void AddRest() {
    const double rest_s = Surplus() - timed_s_;
    Add(CauseKind::kNotExplained, Evidence::kPossible,
        std::string(TextOf(CauseKind::kNotExplained)) + WhatFits(rest_s), rest_s,
        {"calibrate --from-run with this log, so that the next forecast knows"});
  }

  // Rates of the machine that would explain `rest_s`, in closed form.
  std::string WhatFits(double rest_s) const {
    const double wanted = 1 + rest_s / out_.forecast_s;
    std::string text;
    for (const SlowPart part : kSlowParts) {
      const double factor = FactorFor(part, wanted);
      if (factor < kSlowestPart) continue;
      text += fmt::format("{}{} at {:.0f} %", text.empty() ? "; it fits " : " or ", Name(part),
                          100 * factor);
    }
    return text;
  }

  // The share of its speed with which a part makes the step take `wanted` times as long; 0 if even
  // kSlowestPart is too fast. Steps take longer with a slower part, so halving intervals finds it.
  double FactorFor(SlowPart part, double wanted) const {
    const double here_s = StepAt(part, 1);
    if (StepAt(part, kSlowestPart) < wanted * here_s) return 0;
    double low = kSlowestPart, high = 1;
    for (int i = 0; i < 12; ++i) {
      const double middle = (low + high) / 2;
      (StepAt(part, middle) > wanted * here_s ? low : high) = middle;
    }
    return high;
  }

  double StepAt(SlowPart part, double factor) const {
    const auto machine =
        CostModel::Make(in_.costs->cluster(), WithSlower(in_.costs->profile(), part, factor));
    if (!machine) return 0;
    return Evaluator(*in_.model, *machine, AllPlanFields()).Evaluate(in_.plan).step_s;
  }

  // Unexplained time is a cause only if it exceeds the error of the forecast.
  void Rank() {
    double sum_s = 1e-12;
    for (const RunCause& cause : out_.causes) sum_s += cause.seconds;
    const double gap_s = std::max(sum_s, out_.measured_s - out_.attainable_s);
    const bool is_slower = out_.verdict == RunVerdict::kSlower;
    for (RunCause& cause : out_.causes) cause.share = cause.seconds / gap_s;
    std::stable_sort(out_.causes.begin(), out_.causes.end(),
                     [&](const RunCause& a, const RunCause& b) {
                       const bool last_a = a.kind == CauseKind::kNotExplained && !is_slower;
                       const bool last_b = b.kind == CauseKind::kNotExplained && !is_slower;
                       if (last_a != last_b) return last_b;
                       return a.seconds > b.seconds;
                     });
  }

  static constexpr double kSlowestPart = 0.3;

  const RunInput& in_;
  RunCheck out_;
  double loader_s_ = 0;  // waits for data
  std::string loader_text_;
  double timed_s_ = 0;  // of Surplus, explained by timers
};

// Targets whose value in a log is compared with the launch.
constexpr std::array<std::string_view, 10> kCompared = {"tp",
                                                        "pp",
                                                        "cp",
                                                        "ep",
                                                        "zero_stage",
                                                        "sequence",
                                                        "micro_batch",
                                                        "global_batch",
                                                        "run.micro_batches",
                                                        "run.local_batch"};

const DialectRow* RowOf(const Dialect& dialect, const std::string& key) {
  const std::string plain = PlainKey(key);
  for (const DialectRow& row : dialect.rows) {
    const bool is_it = PlainKey(row.key) == plain ||
                       std::any_of(row.also.begin(), row.also.end(), [&](const std::string& also) {
                         return PlainKey(also) == plain;
                       });
    const bool compared = std::find(kCompared.begin(), kCompared.end(), row.to) != kCompared.end();
    if (is_it && compared && !row.is_weak) return &row;
  }
  return nullptr;
}

}  // namespace

std::string_view Name(Evidence evidence) {
  constexpr std::array<std::string_view, 3> kNames = {"log", "forecast", "possible"};
  return kNames[static_cast<std::size_t>(evidence)];
}

std::string_view Name(RunVerdict verdict) {
  constexpr std::array<std::string_view, 3> kNames = {"faster", "as-forecast", "slower"};
  return kNames[static_cast<std::size_t>(verdict)];
}

// A local batch is the micro-batch of a plan without a pipeline.
RanPlan RanPlanOf(const TrainerLog& log, const LaunchDialect& launch, const Plan& plan,
                  const ModelSpec& model, int devices_per_node) {
  RanPlan out{plan, {}};
  const LaunchDraft draft =
      DraftOf(*launch.dialect, plan, model, launch.model_name, devices_per_node);
  for (const LogKey& key : log.keys) {
    const DialectRow* const row = RowOf(*launch.dialect, key.key);
    if (row == nullptr) continue;
    const auto ours = OursOf(*row, key.value);
    const std::string known = TextIn(draft, row->to);
    const bool is_count = ours && ParseInt("", *ours, 1, kMaxModelCount).has_value();
    if (!is_count || known.empty() || SameValue(*ours, known)) continue;
    out.differences.push_back({key.key, key.value, known, key.line});
    std::string field = row->to;
    if (field == "run.local_batch" && plan.pp == 1) field = "micro_batch";
    if (field != "micro_batch" && field != "global_batch" && field != "sequence") continue;
    Plan changed = out.plan;
    if (SetPlanField(PlanFieldOf(field), *ours, changed)) out.plan = changed;
  }
  if (!ValidatePlan(out.plan, model)) out.plan = plan;
  return out;
}

Result<RunCheck> CheckRun(const RunInput& input) { return RunChecker(input).Check(); }

}  // namespace foretrain
