#include "ui/view_model/timeline/ticks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "base/units.h"

namespace foretrain::ui {
namespace {

struct Unit {
  std::string_view name;
  double size;
};

constexpr std::array<Unit, 4> kTimeUnits{{{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1.0}}};

// The largest unit that is at most `value`, or the smallest unit.
const Unit& UnitFor(double value) {
  for (const Unit& unit : kTimeUnits) {
    if (std::abs(value) >= unit.size * 0.9999999) return unit;
  }
  return kTimeUnits.back();
}

// Decimals that a multiple of the step needs; the small constant absorbs rounding of the logarithm.
int DecimalsOf(double step_in_unit) {
  return std::max(0, static_cast<int>(std::ceil(-std::log10(step_in_unit) - 1e-9)));
}

// Multiples of `step` in [low, high], at most `max` + 1. Computed by index, so that errors do not
// add up.
std::vector<double> Multiples(double low, double high, double step, int max) {
  std::vector<double> values;
  const double first = std::ceil(low / step - 1e-9);
  for (int i = 0; i <= max; ++i) {
    const double value = (first + i) * step;
    if (value > high + 1e-9 * step) break;
    values.push_back(value);
  }
  return values;
}

// The largest unit in which the largest time is at least 1 and the step needs at most three
// decimals.
const Unit& AxisUnit(double largest, double step) {
  const Unit* unit = &UnitFor(largest);
  while (unit != &kTimeUnits.back() && DecimalsOf(step / unit->size) > 3) ++unit;
  return *unit;
}

}  // namespace

double NiceStep(double min) {
  const double power = std::pow(10.0, std::floor(std::log10(min)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= min * 0.9999999) return factor * power;
  }
  return 10.0 * power;
}

// All labels share one unit, chosen by the largest time and by the distance of ticks.
std::vector<Tick> TimeTicks(double start_ns, double end_ns, int max) {
  std::vector<Tick> ticks;
  if (!(end_ns > start_ns) || max < 1) return ticks;
  const double step = std::max(1.0, NiceStep((end_ns - start_ns) / max));
  const Unit& unit = AxisUnit(std::max(std::abs(start_ns), std::abs(end_ns)), step);
  const int decimals = DecimalsOf(step / unit.size);
  for (const double value : Multiples(start_ns, end_ns, step, max)) {
    const bool zero = std::abs(value) < 0.5 * step;
    ticks.push_back(
        {value, zero ? std::string("0")
                     : fmt::format("{:.{}f} {}", value / unit.size, decimals, unit.name)});
  }
  return ticks;
}

std::vector<Tick> DriftTicks(double low_ns, double high_ns, int max) {
  std::vector<Tick> ticks = TimeTicks(low_ns, high_ns, max);
  for (Tick& tick : ticks) {
    if (tick.value > 0 && tick.label != "0") tick.label.insert(0, "+");
  }
  return ticks;
}

// Steps are round in the binary unit of the largest value.
std::vector<Tick> ByteTicks(std::int64_t high_bytes, int max) {
  std::vector<Tick> ticks;
  if (high_bytes <= 0 || max < 1) return ticks;
  constexpr std::array<std::string_view, 7> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  const auto high = static_cast<double>(high_bytes);
  std::size_t unit = 0;
  double size = 1.0;
  while (high / size >= 1024.0 && unit + 1 < kUnits.size()) {
    size *= 1024.0;
    ++unit;
  }
  const double step = NiceStep(high / size / max);
  const int decimals = DecimalsOf(step);
  for (const double value : Multiples(0.0, high / size, step, max)) {
    ticks.push_back({value * size, value == 0.0
                                       ? std::string("0")
                                       : fmt::format("{:.{}f} {}", value, decimals, kUnits[unit])});
  }
  return ticks;
}

std::string PreciseTime(double time_ns) {
  const Unit& unit = UnitFor(time_ns);
  if (unit.size == 1.0) return fmt::format("{:.0f} ns", time_ns);
  return fmt::format("{:.2f} {}", time_ns / unit.size, unit.name);
}

std::string SignedTime(double time_ns) {
  if (std::abs(time_ns) < 0.5) return "0";
  const std::string text = FormatSeconds(std::abs(time_ns) / kNsPerSecond);
  return (time_ns < 0 ? "-" : "+") + text;
}

// One decimal below 100 %, none above.
std::string SignedPercent(double fraction) {
  double percent = 100.0 * fraction;
  if (!std::isfinite(percent)) return "no base";
  if (std::abs(percent) < 0.05) percent = 0.0;  // so that no difference reads as -0.0 %
  const int decimals = std::abs(percent) < 99.95 ? 1 : 0;
  return fmt::format("{:+.{}f} %", percent, decimals);
}

std::string InWords(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

}  // namespace foretrain::ui
