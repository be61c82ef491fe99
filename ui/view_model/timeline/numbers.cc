#include "ui/view_model/timeline/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "base/numeric/digits_apart.h"
#include "base/units.h"
#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

using Value = std::optional<double>;
using MetricFunction = std::function<Value(const SideModel&, const StepMetrics&)>;
using Values = std::span<const double>;
using Format = std::vector<std::string> (*)(Values);  // of values that stand together

constexpr int kMaxTileDigits = 5;  // more do not fit a tile

// Thresholds of recording quality; worse values are shown as doubtful.
constexpr double kMinCoverage = 0.99;
constexpr double kMaxOverhead = 0.02;
constexpr double kMaxClockError = 0.01;  // of a step

enum class Difference { kRelative, kPoints };
enum class Better { kLow, kHigh };

// Differences below `min`, which would be displayed as 0.0, are neutral.
Tone ToneOf(double error, double min, Better better) {
  if (!std::isfinite(error) || std::abs(error) < min) return Tone::kPlain;
  return (error > 0) == (better == Better::kHigh) ? Tone::kBetter : Tone::kWorse;
}

// Fractions are compared in points and other metrics in percent of the forecast.
std::optional<Number> Compared(std::string name, Value predicted, Value measured, Format format,
                               Difference difference, Better better) {
  if (!predicted.has_value() && !measured.has_value()) return std::nullopt;
  Number number{.name = std::move(name)};
  std::vector<double> values;
  for (const Value& value : {predicted, measured}) {
    if (value.has_value()) values.push_back(*value);
  }
  std::vector<std::string> texts = format(values);
  if (measured.has_value()) number.measured = std::move(texts.back());
  if (predicted.has_value()) number.predicted = std::move(texts.front());
  if (!predicted.has_value() || !measured.has_value()) return number;
  if (difference == Difference::kPoints) {
    const double points = 100.0 * (*measured - *predicted);
    number.error = fmt::format("{:+.1f} pt", points);
    number.tone = ToneOf(points, 0.05, better);
  } else if (*predicted > 0.0) {
    const double error = *measured / *predicted - 1.0;
    number.error = SignedPercent(error);
    number.tone = ToneOf(error, 0.0005, better);
  }
  return number;
}

std::vector<std::string> Times(Values seconds) { return SecondsApart(seconds, kMaxTileDigits); }
std::vector<std::string> Rates(Values values) { return SiApart(values, "", kMaxTileDigits); }
std::vector<std::string> Percents(Values fractions) {
  std::vector<std::string> texts;
  for (const double fraction : fractions) texts.push_back(FormatPercent(fraction));
  return texts;
}
std::vector<std::string> Sizes(Values values) {
  std::vector<std::int64_t> bytes;
  for (const double value : values) bytes.push_back(static_cast<std::int64_t>(value));
  return BytesApart(bytes, kMaxTileDigits);
}

// Fraction of the step's window; nullopt if the window is unknown.
Value ShareOfWindow(double seconds, const StepMetrics& step) {
  if (!(step.classes.window_s > 0.0)) return std::nullopt;
  return seconds / step.classes.window_s;
}

std::int64_t PeakOfRun(const Metrics& metrics) {
  return metrics.peak_bytes[static_cast<std::size_t>(Space::kDevice)];
}

// The highest peak of any rank in the chosen step.
Value PeakOf(const SideModel& side) {
  std::int64_t bytes = 0;
  for (const MemoryPeak& peak : side.metrics->memory) {
    if (peak.step == side.step && peak.space == Space::kDevice) bytes = std::max(bytes, peak.bytes);
  }
  if (bytes == 0) bytes = PeakOfRun(*side.metrics);
  return bytes > 0 ? Value(static_cast<double>(bytes)) : std::nullopt;
}

// The chosen step; the summary of the run if its steps are not known.
const StepMetrics* StepOf(const SideModel& side) {
  for (const StepMetrics& step : side.metrics->steps) {
    if (step.step == side.step) return &step;
  }
  return side.metrics->overall.has_value() ? &*side.metrics->overall : nullptr;
}

Value Of(const SideModel& side, const MetricFunction& metric) {
  if (!side.IsPresent()) return std::nullopt;
  const StepMetrics* const step = StepOf(side);
  return step == nullptr ? std::nullopt : metric(side, *step);
}

// "median of 40 steps: 8.49 s"
std::string MedianStep(const SideModel& side) {
  const Statistics& all = side.metrics->step_time_s;
  if (all.count < 2) return {};
  return fmt::format("median of {} steps: {}", all.count, FormatSeconds(all.median));
}

std::string PeakOfAllSteps(const SideModel& side) {
  const std::int64_t bytes = PeakOfRun(*side.metrics);
  if (bytes == 0 || PeakOf(side) == Value(static_cast<double>(bytes))) return {};
  return fmt::format("all steps: {}", FormatBytes(bytes));
}

struct Row {
  const char* name;
  MetricFunction metric;
  Format format;
  Difference difference;
  Better better;
  std::string (*variant)(const SideModel&) = nullptr;
};

// The rows in their order on the screen. A metric that is added here appears in all views that show
// numbers.
std::vector<Row> ComparedRows() {
  const auto relative = Difference::kRelative;
  const auto points = Difference::kPoints;
  const auto low = Better::kLow;
  const auto high = Better::kHigh;
  return {
      {"step time", [](auto&, auto& s) { return Value(s.time_s); }, Times, relative, low,
       MedianStep},
      {"tokens/s", [](auto&, auto& s) { return s.tokens_per_s; }, Rates, relative, high},
      {"MFU", [](auto&, auto& s) { return s.mfu; }, Percents, points, high},
      {"exposed comm",
       [](auto&, auto& s) { return ShareOfWindow(s.classes.exposed_communication_s, s); }, Percents,
       points, low},
      {"overlap", [](auto&, auto& s) { return s.overlap; }, Percents, points, high},
      {"bubble", [](auto&, auto& s) { return s.bubble; }, Percents, points, low},
      // Nothing on the device, whether or not the host was busy.
      {"idle", [](auto&, auto& s) { return ShareOfWindow(s.classes.host_s + s.classes.idle_s, s); },
       Percents, points, low},
      {"peak memory", [](auto& side, auto&) { return PeakOf(side); }, Sizes, relative, low,
       PeakOfAllSteps},
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
std::vector<Number> NumbersOf(const SidePair& sides, const PairingCounts& pairing) {
  std::vector<Number> numbers;
  const SideModel& measured = sides.Of(Side::kMeasured);
  for (const Row& row : ComparedRows()) {
    std::optional<Number> number =
        Compared(row.name, Of(sides.Of(Side::kPredicted), row.metric), Of(measured, row.metric),
                 row.format, row.difference, row.better);
    if (!number.has_value()) continue;
    if (row.variant != nullptr) number->variant = row.variant(sides.Of(sides.Shown()));
    numbers.push_back(*std::move(number));
  }
  if (sides.HasBoth()) AddPairing(pairing, numbers);
  if (measured.IsPresent()) {
    AddRecording(*measured.run, *measured.metrics, numbers);
    if (measured.run->emulated) numbers.push_back(Quality("times", "emulated", false));
  }
  return numbers;
}

}  // namespace foretrain::ui
