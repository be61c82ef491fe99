// 8-bit codes with scales, whose products are exact.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/numeric/number_formats.h"
#include "kernels/formats.h"
#include "tests/kernels/support.h"

namespace foretrain::test {

// Integers from -4 to 4 as codes, with scales from 1/2 to 4, so that all sums are exact.
struct Scaled8 {
  Scaled8(std::int64_t rows, std::int64_t cols, FtScaling by, std::uint32_t seed) {
    for (const float x : Random(rows * cols, seed, 4.4F)) {
      codes.push_back(Fp8OfFloat(std::round(x)));
    }
    for (const float x : Random(ScaleCount(by, rows, cols), seed + 1, 2.4F)) {
      scales.push_back(std::exp2(std::round(std::abs(x)) - 1.0F));
    }
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      const auto place = static_cast<std::size_t>(ScalePlace(by, cols, i / cols, i % cols));
      numbers.push_back(scales[place] * FloatOfFp8(codes[static_cast<std::size_t>(i)]));
    }
  }
  std::vector<std::uint8_t> codes;
  Floats scales, numbers;
};

}  // namespace foretrain::test
