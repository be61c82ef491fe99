#include "sim/check/logs/trainer_log.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/text.h"
#include "sim/check/logs/huggingface_log.h"
#include "sim/check/logs/log_formats.h"
#include "sim/check/logs/log_line.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

constexpr std::size_t kMaxLine = 1 << 14;  // characters of a line that are read
constexpr std::size_t kMaxKeys = 1 << 12;

// Reads one format from lines; most lines belong to none.
class FormatReader {
 public:
  explicit FormatReader(const LogFormat& format) : format_(format) {
    for (const LogTimerName& timer : format.timers) {
      log_.timers.push_back({timer.name, timer.part, {}});
    }
  }

  void Read(std::string_view line, int number) {
    for (const LogLine& kind : format_.lines) {
      if (line.find(kind.has) == std::string_view::npos) continue;
      ReadLine(kind, line, number);
      break;
    }
    for (const LogKey& key : format_.keys) {
      const std::size_t at = AfterLabel(line, key.value);
      if (at == std::string_view::npos) continue;
      const auto value = NumberAt(line, at);
      if (value && *value == std::floor(*value)) {
        AddKey(key.key, std::to_string(static_cast<std::int64_t>(*value)), number);
      }
    }
    for (std::size_t i = 0; i < format_.timers.size(); ++i) {
      const LogTimerName& timer = format_.timers[i];
      const std::size_t at = AfterLabel(line, timer.name);
      if (at == std::string_view::npos || at >= line.size()) continue;
      // Not "optimizer-copy" for "optimizer".
      const bool ends =
          line[at] == ' ' || line[at] == ':' || line[at] == '.' || timer.name.ends_with(':');
      const auto value = ends ? NumberAt(line, at) : std::nullopt;
      if (value && *value >= 0 && log_.timers[i].seconds.size() < kMaxLogSteps) {
        log_.timers[i].seconds.push_back(*value * timer.scale);
      }
    }
    if (format_.dotted_keys) ReadDottedKey(line, number);
    if (format_.progress_bars) bars_.Read(line, number);
  }

  TrainerLog Take(std::string_view file) {
    if (format_.progress_bars) log_.steps = bars_.Take();
    std::erase_if(log_.timers, [](const LogTimer& timer) { return timer.seconds.empty(); });
    log_.format = format_.name;
    log_.title = format_.title;
    log_.dialects = format_.dialects;
    log_.file = file;
    return std::move(log_);
  }

  bool is_full() const { return log_.steps.size() > kMaxLogSteps; }

 private:
  void ReadLine(const LogLine& kind, std::string_view line, int number) {
    LogStep step;
    step.line = number;
    if (!kind.step.empty()) {
      const std::size_t at = AfterLabel(line, kind.step);
      const auto count = at == std::string_view::npos ? std::nullopt : NumberAt(line, at);
      if (!count || *count < 0) return;
      step.step = static_cast<std::int64_t>(*count);
    }
    for (const LogValue& value : kind.values) {
      const std::size_t at = AfterLabel(line, value.after);
      const auto given =
          at == std::string_view::npos ? std::nullopt : NumberAt(line, at, value.human);
      if (!given || !(*given > 0)) continue;
      Set(value, *given * value.scale, step);
    }
    const bool has_time = step.step_s > 0 || step.tokens_per_s_device > 0 || step.samples_per_s > 0;
    if (!has_time) return;
    if (kind.step.empty()) {
      log_.summary = step;
      return;
    }
    // Ranks that log together repeat a step.
    if (!log_.steps.empty() && log_.steps.back().step == step.step) return;
    log_.steps.push_back(step);
  }

  void Set(const LogValue& value, double number, LogStep& step) {
    double* target = nullptr;
    switch (value.to) {
      case LogValue::To::kStepSeconds:
        target = &step.step_s;
        break;
      case LogValue::To::kTokensPerSecond:
        target = &step.tokens_per_s_device;
        break;
      case LogValue::To::kSamplesPerSecond:
        target = &step.samples_per_s;
        break;
      case LogValue::To::kPeakBytes:
        log_.peak_bytes =
            std::max(log_.peak_bytes, static_cast<std::int64_t>(std::min(number, 1e15)));
        return;
    }
    if (*target == 0) *target = number;
  }

  // "micro_batch_size ................ 4", perhaps after a time and a source.
  void ReadDottedKey(std::string_view line, int number) {
    const std::size_t dots = line.find(" ...");
    if (dots == std::string_view::npos || dots == 0) return;
    const std::size_t start = line.find_last_of(" \t", dots - 1);
    const std::string_view key =
        line.substr(start == std::string_view::npos ? 0 : start + 1,
                    dots - (start == std::string_view::npos ? 0 : start + 1));
    const std::size_t end = line.find_first_not_of('.', dots + 1);
    if (end == std::string_view::npos || line[end] != ' ' || key.empty()) return;
    AddKey(std::string(key), std::string(Trim(line.substr(end))), number);
  }

  // The last value of a key counts: a batch may grow at first.
  void AddKey(std::string key, std::string value, int number) {
    const auto known = std::find_if(log_.keys.begin(), log_.keys.end(),
                                    [&](const LogKey& other) { return other.key == key; });
    if (known != log_.keys.end()) {
      if (known->value != value) *known = {std::move(key), std::move(value), number};
    } else if (log_.keys.size() < kMaxKeys) {
      log_.keys.push_back({std::move(key), std::move(value), number});
    }
  }

  const LogFormat& format_;
  TrainerLog log_;
  ProgressBars bars_;
};

// Steps count more than a summary, which counts more than nothing.
std::size_t ScoreOf(const TrainerLog& log) {
  return 2 * log.steps.size() + (log.summary.samples_per_s > 0 ? 1 : 0);
}

}  // namespace

// All formats read each line. The one that finds most steps has written the log.
Result<TrainerLog> ReadTrainerLog(std::string_view text, std::string_view file) {
  if (text.find('\0') != std::string_view::npos) {
    return Fail(ErrorCode::kCorruptInput,
                fmt::format("{}: is no text; give what the trainer printed", file));
  }
  FT_ASSIGN(const std::vector<LogFormat> formats, BuiltInLogFormats());
  if (Trim(text.substr(0, 1024)).starts_with('{') && file.ends_with(".json")) {
    const auto bars = std::find_if(formats.begin(), formats.end(),
                                   [](const LogFormat& format) { return format.progress_bars; });
    FT_CHECK(bars != formats.end());
    TrainerLog log = FormatReader(*bars).Take(file);
    FT_TRY(ReadTrainerState(text, file, log));
    return log;
  }
  std::vector<FormatReader> readers(formats.begin(), formats.end());
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    // Progress bars return to the start of their line.
    const std::size_t end = std::min(text.find_first_of("\n\r", at), text.size());
    const bool ends_line = end < text.size() && text[end] == '\n';
    const std::string line = WithoutColours(text.substr(at, std::min(end - at, kMaxLine)));
    for (FormatReader& reader : readers) reader.Read(line, number + 1);
    if (ends_line) ++number;
    at = end + 1;
  }
  TrainerLog best;
  for (FormatReader& reader : readers) {
    if (reader.is_full()) {
      return Refuse("{}: has more than {} steps; give a part of it", file, kMaxLogSteps);
    }
    TrainerLog log = reader.Take(file);
    if (ScoreOf(log) > ScoreOf(best)) best = std::move(log);
  }
  if (ScoreOf(best) > 0) return best;
  std::vector<std::string> shown;
  for (const LogFormat& format : formats) {
    shown.push_back(fmt::format("{} (\"{}\")", format.title, format.shows));
  }
  return Refuse("{}: has no line about a step of {}; give what one of them printed", file,
                Join(shown, ", "));
}

std::vector<double> StepSecondsOf(const TrainerLog& log, const Plan& plan) {
  const auto samples = static_cast<double>(plan.global_batch);
  const double tokens_a_device =
      samples * static_cast<double>(plan.sequence) / static_cast<double>(plan.World());
  std::vector<double> seconds;
  const auto add = [&](const LogStep& step) {
    const double step_s = step.step_s > 0 ? step.step_s
                          : step.tokens_per_s_device > 0
                              ? tokens_a_device / step.tokens_per_s_device
                          : step.samples_per_s > 0 ? samples / step.samples_per_s
                                                   : 0;
    if (step_s > 0 && step_s < 1e7) seconds.push_back(step_s);
  };
  for (const LogStep& step : log.steps) add(step);
  if (seconds.empty()) add(log.summary);
  return seconds;
}

}  // namespace foretrain
