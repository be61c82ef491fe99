// A log of another trainer: it is read or refused in a sentence that names it, and step times of an
// accepted one are finite and split into parts that add up.
#include <cmath>
#include <string_view>

#include "base/result.h"
#include "sim/check/logs/trainer_log.h"
#include "sim/check/step_series.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foretrain;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto log = ReadTrainerLog(text, text.starts_with('{') ? "fuzz.json" : "fuzz.log");
  if (!log) {
    FT_CHECK(log.error().message.find("fuzz") != std::string::npos);
    return 0;
  }
  FT_CHECK(log->steps.size() <= kMaxLogSteps && log->peak_bytes >= 0);
  Plan plan;
  plan.dp = 8;
  plan.global_batch = 64;
  plan.micro_batch = 8;
  plan.sequence = 1024;
  const std::vector<double> seconds = StepSecondsOf(*log, plan);
  for (const double step_s : seconds) FT_CHECK(std::isfinite(step_s) && step_s > 0);
  if (seconds.empty()) return 0;
  const StepSeries series = SplitSteps(seconds);
  FT_CHECK(series.warm_up < series.points);
  FT_CHECK(series.base_s >= 0 && series.drift_s >= 0 && series.spikes_s >= 0);
  const double sum = series.base_s + series.drift_s + series.spikes_s;
  FT_CHECK(std::abs(sum - series.mean_s) <= 1e-9 * series.mean_s);
  return 0;
}
