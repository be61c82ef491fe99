#include "base/numeric/digits_apart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "base/units.h"

namespace foretrain {
namespace {

struct Unit {
  const char* name;
  double size;
};

// The largest unit in which the value is at least 1 at `digits` digits; the last one otherwise.
template <std::size_t kCount>
const Unit& UnitOf(double value, int digits, const std::array<Unit, kCount>& units) {
  const double half = 0.5 * std::pow(10.0, 1 - digits);  // rounds up to 1
  for (const Unit& unit : units) {
    if (std::abs(value) >= unit.size * (1 - half / 10)) return unit;
  }
  return units.back();
}

// `value` with `digits` significant digits, at least all before the point.
std::string Rounded(double value, int digits) {
  if (value == 0) return "0";
  const int before = static_cast<int>(std::floor(std::log10(std::abs(value)))) + 1;
  return fmt::format("{:.{}f}", value, std::max(0, digits - before));
}

// Distance of each value to the nearest different one; infinity if there is none.
std::vector<double> DistancesOf(std::span<const double> values) {
  std::vector<double> sorted;
  for (const double value : values) {
    if (std::isfinite(value)) sorted.push_back(value);
  }
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  std::vector<double> distances;
  for (const double value : values) {
    double distance = std::numeric_limits<double>::infinity();
    const auto at = std::lower_bound(sorted.begin(), sorted.end(), value);
    if (std::isfinite(value)) {
      if (at != sorted.begin()) distance = std::min(distance, value - *(at - 1));
      if (at + 1 != sorted.end()) distance = std::min(distance, *(at + 1) - value);
    }
    distances.push_back(distance);
  }
  return distances;
}

int Needed(double value, double distance, int max) {
  if (!std::isfinite(distance) || value == 0) return kMinDigits;
  const double exponent = std::floor(std::log10(std::abs(value)));
  const double wanted = std::ceil(exponent + 1 - std::log10(distance / 2) - 1e-9);
  return static_cast<int>(std::clamp<double>(wanted, kMinDigits, max));
}

}  // namespace

// With a last digit of at most half the distance, two values are rounded by a quarter of it each at
// most, so their texts differ.
std::vector<int> DigitsApart(std::span<const double> values, int max) {
  const std::vector<double> distances = DistancesOf(values);
  std::vector<int> digits;
  for (std::size_t i = 0; i < values.size(); ++i) {
    digits.push_back(Needed(values[i], distances[i], max));
  }
  return digits;
}

// Whole nanoseconds are the resolution of all clocks: digits beyond them are left out.
std::vector<std::string> SecondsApart(std::span<const double> seconds, int max) {
  constexpr std::array<Unit, 4> kUnits{{{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}}};
  constexpr double kLong = 99.95;  // FormatSeconds writes minutes from here on
  const std::vector<int> digits = DigitsApart(seconds, max);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    if (digits[i] == kMinDigits) {
      texts.push_back(FormatSeconds(seconds[i]));
      continue;
    }
    const Unit& unit =
        std::abs(seconds[i]) >= kLong ? kUnits.front() : UnitOf(seconds[i], digits[i], kUnits);
    const bool whole = unit.size == kUnits.back().size;
    texts.push_back((whole ? fmt::format("{:.0f}", seconds[i] / unit.size)
                           : Rounded(seconds[i] / unit.size, digits[i])) +
                    " " + unit.name);
  }
  return texts;
}

std::vector<std::string> BytesApart(std::span<const std::int64_t> bytes, int max) {
  constexpr std::array<Unit, 7> kUnits{{{"EiB", 0x1p60},
                                        {"PiB", 0x1p50},
                                        {"TiB", 0x1p40},
                                        {"GiB", 0x1p30},
                                        {"MiB", 0x1p20},
                                        {"KiB", 0x1p10},
                                        {"B", 1}}};
  std::vector<double> values;
  for (const std::int64_t value : bytes) values.push_back(static_cast<double>(value));
  const std::vector<double> distances = DistancesOf(values);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const Unit& unit = UnitOf(values[i], kMinDigits, kUnits);
    // A unit is no power of ten, so digits are counted in it.
    const int digits = Needed(values[i] / unit.size, distances[i] / unit.size, max);
    const bool plain = digits == kMinDigits || unit.size == 1;
    texts.push_back(plain ? FormatBytes(bytes[i])
                          : Rounded(values[i] / unit.size, digits) + " " + unit.name);
  }
  return texts;
}

std::vector<std::string> SiApart(std::span<const double> values, std::string_view unit, int max) {
  constexpr std::array<Unit, 7> kPrefixes{
      {{"E", 1e18}, {"P", 1e15}, {"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"k", 1e3}, {"", 1}}};
  const std::vector<int> digits = DigitsApart(values, max);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (digits[i] == kMinDigits) {
      texts.push_back(FormatSi(values[i], unit));
      continue;
    }
    const Unit& prefix = UnitOf(values[i], digits[i], kPrefixes);
    const std::string suffix = prefix.name + std::string(unit);
    texts.push_back(Rounded(values[i] / prefix.size, digits[i]) +
                    (suffix.empty() ? "" : " " + suffix));
  }
  return texts;
}

}  // namespace foretrain
