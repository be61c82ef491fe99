#include "tests/runtime/precision/eight_bits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>

namespace foretrain {

double LargestOf(Code8 format) { return format == Code8::kE4m3 ? 448.0 : 57344.0; }

double ValueOf(Code8 format, std::uint8_t code) {
  const bool wide = format == Code8::kE5m2;
  const int mantissa_bits = wide ? 2 : 3, bias = wide ? 15 : 7;
  const int mantissa = code & ((1 << mantissa_bits) - 1);
  const int exponent = (code & 0x7f) >> mantissa_bits;
  const double sign = (code & 0x80) != 0 ? -1.0 : 1.0;
  if (!wide && (code & 0x7f) == 0x7f) return std::numeric_limits<double>::quiet_NaN();
  if (wide && exponent == 31) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  const double part = static_cast<double>(mantissa) / (1 << mantissa_bits);
  if (exponent == 0) return sign * std::ldexp(part, 1 - bias);
  return sign * std::ldexp(1.0 + part, exponent - bias);
}

namespace {

std::vector<double> SortedValues(Code8 format) {
  std::vector<double> values;
  for (int code = 0; code < 256; ++code) {
    const double value = ValueOf(format, static_cast<std::uint8_t>(code));
    if (std::isfinite(value)) values.push_back(value);
  }
  std::sort(values.begin(), values.end());
  return values;
}

}  // namespace

double DistanceTo(Code8 format, double x) {
  static const std::vector<double> kOfE4m3 = SortedValues(Code8::kE4m3),
                                   kOfE5m2 = SortedValues(Code8::kE5m2);
  const std::vector<double>& values = format == Code8::kE4m3 ? kOfE4m3 : kOfE5m2;
  const auto above = std::lower_bound(values.begin(), values.end(), x);
  double min = std::numeric_limits<double>::infinity();
  if (above != values.end()) min = *above - x;
  if (above != values.begin()) min = std::min(min, x - *std::prev(above));
  return min;
}

std::int64_t ScaleOf(Shared8 shared, std::int64_t cols, std::int64_t row, std::int64_t col) {
  const std::int64_t across = (cols + 127) / 128;
  switch (shared) {
    case Shared8::kRows128:
      return row * across + col / 128;
    case Shared8::kColumns128:
      return row / 128 * cols + col;
    case Shared8::kSquares128:
      return row / 128 * across + col / 128;
    case Shared8::kAll:
      break;
  }
  return 0;
}

double Matrix8::At(std::int64_t row, std::int64_t col) const {
  return ValueOf(format, codes[row * cols + col]) *
         static_cast<double>(scales[ScaleOf(shared, cols, row, col)]);
}

void ExpectQuantized(const std::vector<double>& x, const Matrix8& made) {
  const double top = LargestOf(made.format);
  std::map<std::int64_t, double> largest;
  const auto number = [&](std::int64_t row, std::int64_t col) {
    return x[static_cast<std::size_t>(row * made.cols + col)];
  };
  for (std::int64_t r = 0; r < made.rows; ++r) {
    for (std::int64_t c = 0; c < made.cols; ++c) {
      double& max = largest[ScaleOf(made.shared, made.cols, r, c)];
      max = std::max(max, std::abs(number(r, c)));
    }
  }
  for (const auto& [which, max] : largest) {
    ASSERT_NEAR(static_cast<double>(made.scales[which]), max / top, max / top * 0x1p-23)
        << "scale " << which;
  }
  for (std::int64_t r = 0; r < made.rows; ++r) {
    for (std::int64_t c = 0; c < made.cols; ++c) {
      const double scale = made.scales[ScaleOf(made.shared, made.cols, r, c)];
      if (scale == 0.0) continue;
      const double wanted = number(r, c) / scale;
      const double off = std::abs(ValueOf(made.format, made.codes[r * made.cols + c]) - wanted);
      ASSERT_LE(off, DistanceTo(made.format, wanted) + std::abs(wanted) * 0x1p-21)
          << r << ", " << c << ": " << wanted;
    }
  }
}

}  // namespace foretrain
