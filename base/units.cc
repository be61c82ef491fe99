#include "base/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"

namespace foretrain {
namespace {

struct Quantity {
  double number = 0;
  std::int64_t integer = -1;  // the number, if written without point or exponent; else -1
  std::string_view unit;
};

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array<std::string_view, 6> kBytePrefixes{"", "k", "m", "g", "t", "p"};

// Splits "1.5 GB" into number and unit. A whole number is also kept as an integer, so that large
// byte counts stay exact.
Result<Quantity> ParseQuantity(std::string_view what, std::string_view text) {
  const std::string_view trimmed = Trim(text);
  const char* const begin = trimmed.data();
  const char* const end = begin + trimmed.size();
  Quantity quantity;
  const auto [rest, error] = std::from_chars(begin, end, quantity.number, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(quantity.number) || quantity.number < 0) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: \"{}\" does not start with a number that is 0 or more", what,
                            Printable(text)));
  }
  std::int64_t integer = 0;
  const auto whole = std::from_chars(begin, rest, integer);
  if (whole.ec == std::errc() && whole.ptr == rest) quantity.integer = integer;
  quantity.unit = Trim({rest, static_cast<std::size_t>(end - rest)});
  return quantity;
}

// Bytes in one `unit`, or 0 if it is not a unit of bytes.
std::int64_t BytesOfUnit(std::string_view unit) {
  if (unit.empty()) return 1;
  // A small b after a capital prefix means bits ("Gb").
  if (unit.size() > 1 && unit.back() == 'b' && unit.front() >= 'A' && unit.front() <= 'Z') return 0;
  const std::string lower = ToLower(unit);
  std::int64_t decimal = 1, binary = 1;
  for (const std::string_view prefix : kBytePrefixes) {
    if (lower == std::string(prefix) + "b") return decimal;
    if (!prefix.empty() && lower == std::string(prefix) + "ib") return binary;
    decimal *= 1000;
    binary *= 1024;
  }
  return 0;
}

// Bits in one `unit` that ends in a small b after a capital prefix ("Gb"), or 0.
double BitsOfUnit(std::string_view unit) {
  constexpr std::array<Unit, 4> kUnits{{{"Kb", 1e3}, {"Mb", 1e6}, {"Gb", 1e9}, {"Tb", 1e12}}};
  for (const Unit& known : kUnits) {
    if (unit == known.name || unit == std::string(known.name) + "it") return known.factor;
  }
  return 0;
}

tl::unexpected<Error> BadUnit(std::string_view what, std::string_view text,
                              std::string_view accepted) {
  return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: \"{}\" has no known unit. Write {}",
                                                       what, Printable(text), accepted));
}

// Three significant digits of a number below 1,024.
std::string ThreeDigits(double value) {
  const double size = std::abs(value);
  return fmt::format("{:.{}f}", value, size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

}  // namespace

// The limits are compared as doubles: converting a double outside int64_t is undefined.
std::int64_t NsFromSeconds(double seconds) {
  FT_CHECK(!std::isnan(seconds));
  const double ns = std::round(seconds * kNsPerSecond);
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  if (ns >= kLimit) return std::numeric_limits<std::int64_t>::max();
  if (ns < -kLimit) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(ns);
}

// A whole number is multiplied exactly in int64_t; only fractions go through double and round.
Result<std::int64_t> ParseBytes(std::string_view what, std::string_view text) {
  FT_ASSIGN(const Quantity quantity, ParseQuantity(what, text));
  const std::int64_t unit = BytesOfUnit(quantity.unit);
  if (unit == 0) {
    return BadUnit(
        what, text,
        "B, KB, MB, GB, TB, PB (powers of 1000) or KiB, MiB, GiB, TiB, PiB (of 1024), as "
        "in 72GiB");
  }
  if (quantity.integer >= 0) return CheckedMul(what, quantity.integer, unit);
  const double bytes = std::round(quantity.number * static_cast<double>(unit));
  if (bytes > static_cast<double>(kMaxProduct)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: \"{}\" is more than 2^56 bytes", what, Printable(text)));
  }
  return static_cast<std::int64_t>(bytes);
}

// Units are compared case-sensitively: "M" would be ambiguous between minutes and mega.
Result<double> ParseSeconds(std::string_view what, std::string_view text) {
  constexpr double kMax = 1e9;
  constexpr std::array<Unit, 9> kUnits{{{"", 1},
                                        {"s", 1},
                                        {"ms", 1e-3},
                                        {"us", 1e-6},
                                        {"\xc2\xb5s", 1e-6},
                                        {"ns", 1e-9},
                                        {"min", 60},
                                        {"h", 3600},
                                        {"d", 86400}}};
  FT_ASSIGN(const Quantity quantity, ParseQuantity(what, text));
  for (const Unit& unit : kUnits) {
    if (quantity.unit != unit.name) continue;
    // Divides if the inverse factor is a whole number: 3 ms is then 0.003 to the bit.
    const double seconds = unit.factor < 1 ? quantity.number / std::round(1 / unit.factor)
                                           : quantity.number * unit.factor;
    if (seconds > kMax) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: \"{}\" is more than 1e9 seconds", what, Printable(text)));
    }
    return seconds;
  }
  return BadUnit(what, text, "ns, us, ms, s, min, h or d, as in 1.5ms");
}

// Bits are tried first: "Gb" alone means Gb/s, as networks are sold, while bytes need "/s" or "ps".
Result<double> ParseBytesPerSecond(std::string_view what, std::string_view text) {
  constexpr double kMax = 1e18;
  FT_ASSIGN(const Quantity quantity, ParseQuantity(what, text));
  std::string_view unit = quantity.unit;
  const bool per_second = unit.ends_with("/s") || unit.ends_with("ps");
  if (per_second) unit.remove_suffix(2);
  double rate = quantity.number * BitsOfUnit(unit) / 8;
  if (rate == 0 && per_second && !unit.empty()) {
    rate = quantity.number * static_cast<double>(BytesOfUnit(unit));
  }
  if (rate > kMax) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: \"{}\" is more than 1e18 bytes a second", what, Printable(text)));
  }
  if (rate == 0) {
    return BadUnit(what, text,
                   "GB/s or GiB/s for bytes, Gb or Gb/s for bits, more than 0, as in 400Gb");
  }
  return rate;
}

std::string FormatBytes(std::int64_t bytes) {
  constexpr std::array<std::string_view, 6> kUnits{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  if (std::abs(value) < 1024) return fmt::format("{} B", bytes);
  std::size_t unit = 0;
  value /= 1024;
  // From 1023.5 on, three digits would show 1024: the next unit is used.
  while (std::abs(value) >= 1023.5 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", ThreeDigits(value), kUnits[unit]);
}

// From 99.95 s on whole seconds or minutes are shown; the rounding carries over, so that 59.9 min
// never shows as "59 min 60 s".
std::string FormatSeconds(double seconds) {
  if (!std::isfinite(seconds)) return fmt::format("{} s", seconds);
  if (seconds < 0) return "-" + FormatSeconds(-seconds);
  if (seconds >= 99.95) {
    const double whole = std::round(seconds);
    const double minutes = std::floor(whole / 60);
    if (whole < 3600) return fmt::format("{:.0f} min {:02.0f} s", minutes, whole - 60 * minutes);
    const double rounded_minutes = std::round(seconds / 60);
    const double hours = std::floor(rounded_minutes / 60);
    return fmt::format("{:.0f} h {:02.0f} min", hours, rounded_minutes - 60 * hours);
  }
  constexpr std::array<Unit, 3> kUnits{{{"s", 1}, {"ms", 1e3}, {"us", 1e6}}};
  if (seconds == 0) return "0 s";
  for (const Unit& unit : kUnits) {
    if (seconds * unit.factor >= 0.9995) {
      return fmt::format("{} {}", ThreeDigits(seconds * unit.factor), unit.name);
    }
  }
  return fmt::format("{} ns", ThreeDigits(seconds * kNsPerSecond));
}

// From 999.5 on, three digits would show 1000: the next prefix is used.
std::string FormatSi(double value, std::string_view unit) {
  constexpr std::array<std::string_view, 7> kPrefixes{"", "k", "M", "G", "T", "P", "E"};
  std::size_t prefix = 0;
  while (std::isfinite(value) && std::abs(value) >= 999.5 && prefix + 1 < kPrefixes.size()) {
    value /= 1000;
    ++prefix;
  }
  const std::string number = std::isfinite(value) ? ThreeDigits(value) : fmt::format("{}", value);
  const std::string suffix = std::string(kPrefixes[prefix]) + std::string(unit);
  return suffix.empty() ? number : number + " " + suffix;
}

std::string FormatPercent(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }

}  // namespace foretrain
