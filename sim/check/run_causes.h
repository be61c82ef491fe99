// Compares the log of a run with the forecast of its launch, and says why it is slower than it
// could be. Leaves out reading files and printing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/check/logs/trainer_log.h"
#include "sim/check/plan_causes.h"
#include "sim/check/step_series.h"
#include "sim/config/launch/read_launch.h"

namespace foretrain {

// An option of the launch that the log states with another value.
struct LogDifference {
  std::string key;
  std::string in_log, in_launch;
  int line = 0;  // of the log
};

// The plan that ran: that of the launch with the micro-batch, batch and sequence that the log
// states. The other differences are listed alone.
struct RanPlan {
  Plan plan;
  std::vector<LogDifference> differences;
};
RanPlan RanPlanOf(const TrainerLog& log, const LaunchDialect& launch, const Plan& plan,
                  const ModelSpec& model, int devices_per_node);

// How a cause is known. kLog: the log shows it. kForecast: the plan without it was simulated.
// kPossible: it fits the time that is left, as others do.
enum class Evidence : std::uint8_t { kLog, kForecast, kPossible };
std::string_view Name(Evidence evidence);  // "log", "forecast", "possible"

struct RunCause {
  CauseKind kind = CauseKind::kNotExplained;
  Evidence evidence = Evidence::kLog;
  std::string text;                // what is seen, for people
  double seconds = 0;              // of a step
  double share = 0;                // of the gap, or of all causes if they exceed it
  std::vector<std::string> helps;  // keys of the launch file, or a sentence
};

enum class RunVerdict : std::uint8_t { kFaster, kAsForecast, kSlower };
std::string_view Name(RunVerdict verdict);  // "faster", "as-forecast", "slower"

struct RunCheck {
  StepSeries series;
  double measured_s = 0;  // mean of the steady steps
  double forecast_s = 0;
  ForecastInterval interval;
  double attainable_s = 0;  // forecast with all changes of the plan that help
  RunVerdict verdict = RunVerdict::kAsForecast;
  std::vector<RunCause> causes;  // largest first
};

// A run, and the forecast to compare it with.
struct RunInput {
  const TrainerLog* log = nullptr;
  const LaunchAccount* account = nullptr;  // of the launch file, for its intervals of pauses
  const ModelSpec* model = nullptr;
  const CostModel* costs = nullptr;
  Plan plan;                          // that ran
  const PlanCauses* plans = nullptr;  // of that plan
};

// The gap between the run and `attainable_s` is split:
//   - slow steps and a rising level of the series (SplitSteps): pauses, data loader, throttling;
//   - times that the trainer took itself: loading data, computing;
//   - each change of the plan, by simulation;
//   - what is left against the forecast. It is no cause unless the run is slower than the interval.
//
// Errors: kInvalidArgument if the log has no time of a step.
Result<RunCheck> CheckRun(const RunInput& input);

}  // namespace foretrain
