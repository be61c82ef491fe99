// Units: constants, conversions, and parsing and formatting of sizes, times and rates. Nanoseconds
// become seconds only here. Bytes and nanoseconds are int64_t, modelled seconds double; GiB is
// 2^30, GB is 10^9.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace foretrain {

inline constexpr std::int64_t kKiB = std::int64_t{1} << 10;
inline constexpr std::int64_t kMiB = std::int64_t{1} << 20;
inline constexpr std::int64_t kGiB = std::int64_t{1} << 30;
inline constexpr std::int64_t kTiB = std::int64_t{1} << 40;
inline constexpr double kNsPerSecond = 1e9;

constexpr double SecondsFromNs(std::int64_t ns) { return static_cast<double>(ns) / kNsPerSecond; }

// The nearest nanosecond, clamped to int64_t (292 years). `seconds` is not NaN.
std::int64_t NsFromSeconds(double seconds);

constexpr double GibFromBytes(std::int64_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(kGiB);
}

// Parses bytes from "72GiB", "1.5 GB", "512 MiB", "4096B" or "4096": decimal or binary units from K
// to P, in either case. A number without a unit is bytes. Rounds to the nearest byte.
//
// Errors: kInvalidArgument, naming `what`: another unit (a bare "G" is ambiguous, "Gb" is bits), a
// negative number, or more than 2^56 bytes.
Result<std::int64_t> ParseBytes(std::string_view what, std::string_view text);

// Parses seconds from "1.5ms", "20us", "3 s", "2min", "1h"; a number without a unit is seconds.
// Errors: kInvalidArgument: another unit, a negative number, or more than 1e9 seconds.
Result<double> ParseSeconds(std::string_view what, std::string_view text);

// Parses bytes per second from "50GB/s", "400Gb" or "400Gb/s" (bits, as networks are sold),
// "25GiB/s". A number without a unit is refused. Errors: kInvalidArgument, as above.
Result<double> ParseBytesPerSecond(std::string_view what, std::string_view text);

// Three significant digits with a binary unit: "1.50 GiB", "71.3 GiB", "512 B".
std::string FormatBytes(std::int64_t bytes);

// Three significant digits: "12.3 ms", "2.05 s"; from 100 s on "1 min 40 s", from 1 h "2 h 05 min".
std::string FormatSeconds(double seconds);

// Three significant digits with a decimal prefix before `unit`: FormatSi(3.12e14, "FLOP/s") is
// "312 TFLOP/s". Without a unit the prefix stands alone: "1.50 k".
std::string FormatSi(double value, std::string_view unit);

// A fraction as a percentage with one decimal: 0.413 is "41.3 %".
std::string FormatPercent(double fraction);

}  // namespace foretrain
