#include "sim/check/logs/huggingface_log.h"

#include <utility>

#include "base/json/json.h"
#include "sim/check/logs/log_line.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {

Result<void> ReadTrainerState(std::string_view text, std::string_view file, TrainerLog& log) {
  FT_ASSIGN(const JsonValue state,
            ParseJson(text, file, {.max_bytes = kMaxLogBytes, .max_values = 1 << 22}));
  const JsonValue* const history =
      state.kind() == JsonValue::Kind::kObject ? state.Find("log_history") : nullptr;
  if (history == nullptr || history->kind() != JsonValue::Kind::kArray) {
    return Refuse(
        "{}: has no log_history; give the trainer_state.json of the last checkpoint, or the log",
        file);
  }
  for (const JsonValue& entry : history->items()) {
    if (entry.kind() != JsonValue::Kind::kObject) continue;
    const JsonValue* const rate = entry.Find("train_samples_per_second");
    const bool is_number = rate != nullptr && (rate->kind() == JsonValue::Kind::kNumber ||
                                               rate->kind() == JsonValue::Kind::kInteger);
    if (is_number && rate->AsNumber() > 0) log.summary.samples_per_s = rate->AsNumber();
  }
  if (log.summary.samples_per_s > 0) return {};
  return Refuse(
      "{}: has no train_samples_per_second, which the Trainer writes when training ends; give the "
      "log with its progress bars",
      file);
}

void ProgressBars::Read(std::string_view line, int number) {
  const std::size_t bar = line.find("| ");
  if (bar == std::string_view::npos) return;
  const std::size_t slash = line.find('/', bar), bracket = line.find('[', bar);
  if (slash == std::string_view::npos || bracket == std::string_view::npos || slash > bracket) {
    return;
  }
  const auto step = NumberBefore(line, slash), all = NumberAt(line, slash + 1);
  if (!step || !all || *step < 1 || *all < *step || steps_ >= kMaxLogSteps) return;
  double step_s = 0;
  if (const std::size_t at = line.find("s/it", bracket); at != std::string_view::npos) {
    step_s = NumberBefore(line, at).value_or(0);
  } else if (const std::size_t rate = line.find("it/s", bracket); rate != std::string_view::npos) {
    const double steps_per_s = NumberBefore(line, rate).value_or(0);
    if (steps_per_s > 0) step_s = 1 / steps_per_s;
  }
  if (!(step_s > 0)) return;
  std::vector<LogStep>& steps = bars_[static_cast<std::int64_t>(*all)];
  LogStep one;
  one.step = static_cast<std::int64_t>(*step);
  one.line = number;
  one.step_s = step_s;
  if (!steps.empty() && steps.back().step == one.step) return;  // the bar was drawn again
  steps.push_back(one);
  ++steps_;
}

std::vector<LogStep> ProgressBars::Take() {
  std::vector<LogStep> longest;
  double longest_s = 0;
  for (auto& [all, steps] : bars_) {
    double sum_s = 0;
    for (const LogStep& step : steps) sum_s += step.step_s;
    if (sum_s <= longest_s) continue;
    longest_s = sum_s;
    longest = std::move(steps);
  }
  bars_.clear();
  return longest;
}

}  // namespace foretrain
