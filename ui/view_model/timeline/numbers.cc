#include "ui/view_model/timeline/numbers.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "base/units.h"
#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

using Value = std::optional<double>;
using MetricFunction = std::function<Value(const Metrics&, const StepMetrics&)>;
using Format = std::string (*)(double);

// Thresholds of recording quality; worse values are shown as doubtful.
constexpr double kMinCoverage = 0.99;
constexpr double kMaxOverhead = 0.02;
constexpr double kMaxClockError = 0.01;  // of a step

enum class Difference { kRelative, kPoints };

// Differences below `min`, which would be displayed as 0.0, are neutral.
Tone ToneOf(double error, double min) {
  if (!std::isfinite(error) || std::abs(error) < min) return Tone::kPlain;
  return error > 0 ? Tone::kMore : Tone::kLess;
}

// Fractions are compared in points and other metrics in percent of the forecast.
std::optional<Number> Compared(std::string name, Value predicted, Value measured, Format format,
                               Difference difference) {
  if (!predicted.has_value() && !measured.has_value()) return std::nullopt;
  Number number{.name = std::move(name)};
  if (predicted.has_value()) number.predicted = format(*predicted);
  if (measured.has_value()) number.measured = format(*measured);
  if (!predicted.has_value() || !measured.has_value()) return number;
  if (difference == Difference::kPoints) {
    const double points = 100.0 * (*measured - *predicted);
    number.error = fmt::format("{:+.1f} pt", points);
    number.tone = ToneOf(points, 0.05);
  } else if (*predicted > 0.0) {
    const double error = *measured / *predicted - 1.0;
    number.error = SignedPercent(error);
    number.tone = ToneOf(error, 0.0005);
  }
  return number;
}

std::string FormatRate(double value) { return FormatSi(value, ""); }
std::string FormatMemory(double bytes) { return FormatBytes(static_cast<std::int64_t>(bytes)); }

// Fraction of the step's window; nullopt if the window is unknown.
Value ShareOfWindow(double seconds, const StepMetrics& step) {
  if (!(step.classes.window_s > 0.0)) return std::nullopt;
  return seconds / step.classes.window_s;
}

Value PeakOf(const Metrics& metrics) {
  const std::int64_t bytes = metrics.peak_bytes[static_cast<std::size_t>(Space::kDevice)];
  return bytes > 0 ? Value(static_cast<double>(bytes)) : std::nullopt;
}

Value Of(const Metrics* metrics, const MetricFunction& metric) {
  if (metrics == nullptr || !metrics->overall.has_value()) return std::nullopt;
  return metric(*metrics, *metrics->overall);
}

struct Row {
  const char* name;
  MetricFunction metric;
  Format format;
  Difference difference;
};

// The rows in their order on the screen. A metric that is added here appears in all views that show
// numbers.
std::vector<Row> ComparedRows() {
  const auto relative = Difference::kRelative;
  const auto points = Difference::kPoints;
  return {
      {"step time", [](auto&, auto& s) { return Value(s.time_s); }, FormatSeconds, relative},
      {"tokens/s", [](auto&, auto& s) { return s.tokens_per_s; }, FormatRate, relative},
      {"MFU", [](auto&, auto& s) { return s.mfu; }, FormatPercent, points},
      {"exposed comm",
       [](auto&, auto& s) { return ShareOfWindow(s.classes.exposed_communication_s, s); },
       FormatPercent, points},
      {"overlap", [](auto&, auto& s) { return s.overlap; }, FormatPercent, points},
      {"bubble", [](auto&, auto& s) { return s.bubble; }, FormatPercent, points},
      // Nothing on the device, whether or not the host was busy.
      {"idle", [](auto&, auto& s) { return ShareOfWindow(s.classes.host_s + s.classes.idle_s, s); },
       FormatPercent, points},
      {"peak memory", [](auto& m, auto&) { return PeakOf(m); }, FormatMemory, relative},
  };
}

Number Quality(std::string name, std::string value, bool clean) {
  return {.name = std::move(name),
          .measured = std::move(value),
          .tone = clean ? Tone::kPlain : Tone::kAmber,
          .quality = true};
}

// Numbers about the quality of the recording, marked as doubtful beyond their threshold.
void AddRecording(const RunView& run, const Metrics& metrics, std::vector<Number>& numbers) {
  numbers.push_back(
      Quality("coverage", FormatPercent(metrics.coverage), metrics.coverage >= kMinCoverage));
  numbers.push_back(Quality("dropped", fmt::format("{}", run.dropped), run.dropped == 0));
  if (run.invalid != 0) {
    numbers.push_back(Quality("invalid", fmt::format("{}", run.invalid), false));
  }
  if (run.overhead.has_value()) {
    numbers.push_back(
        Quality("recording", FormatPercent(*run.overhead), *run.overhead <= kMaxOverhead));
  }
  if (run.clock_error_ns.has_value()) {
    const double error_s = SecondsFromNs(*run.clock_error_ns);
    const double step_s = metrics.overall.has_value() ? metrics.overall->time_s : 0.0;
    numbers.push_back(
        Quality("clock error", FormatSeconds(error_s), error_s <= kMaxClockError * step_s));
  }
}

void AddPairing(const PairingCounts& pairing, std::vector<Number>& numbers) {
  const std::int64_t alone = pairing.predicted_alone + pairing.measured_alone;
  numbers.push_back(Quality("drift", SignedTime(static_cast<double>(pairing.drift_ns)), true));
  numbers.push_back(Quality("unpaired ops", fmt::format("{}", alone), alone == 0));
}

}  // namespace

// Metrics that neither run knows are left out.
std::vector<Number> NumbersOf(const RunView* predicted, const Metrics* predicted_metrics,
                              const RunView* measured, const Metrics* measured_metrics,
                              const PairingCounts& pairing) {
  std::vector<Number> numbers;
  for (const Row& row : ComparedRows()) {
    std::optional<Number> number =
        Compared(row.name, Of(predicted_metrics, row.metric), Of(measured_metrics, row.metric),
                 row.format, row.difference);
    if (number.has_value()) numbers.push_back(*std::move(number));
  }
  if (predicted != nullptr && measured != nullptr) AddPairing(pairing, numbers);
  if (measured != nullptr) {
    AddRecording(*measured, *measured_metrics, numbers);
    if (measured->emulated) numbers.push_back(Quality("times", "emulated", false));
  }
  return numbers;
}

}  // namespace foretrain::ui
