// Texts of values that stand together, in one table or on one axis. Near values get more digits, so
// that they read as different numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foretrain {

inline constexpr int kMinDigits = 3;
inline constexpr int kMaxDigits = 7;

// Significant digits that each value needs, in [kMinDigits, max]. The last digit is at most half
// the distance to the nearest other value, so rounded values stay apart. Equal values need none.
//
//   values  in one unit; values that are not finite get kMinDigits
//   max     in [kMinDigits, kMaxDigits]; values that are nearer than that may read alike
//
// O(n log n).
std::vector<int> DigitsApart(std::span<const double> values, int max = kMaxDigits);

// Times, sizes and rates as FormatSeconds, FormatBytes and FormatSi write them, with the digits of
// DigitsApart: 1.003 s and 1.012 s, but 8.87 s and 12.4 s. From 100 s on, a time that needs more
// than three digits is in seconds.
std::vector<std::string> SecondsApart(std::span<const double> seconds, int max = kMaxDigits);
std::vector<std::string> BytesApart(std::span<const std::int64_t> bytes, int max = kMaxDigits);
std::vector<std::string> SiApart(std::span<const double> values, std::string_view unit,
                                 int max = kMaxDigits);

}  // namespace foretrain
