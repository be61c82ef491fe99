#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/numeric/nf4.h"
#include "base/numeric/number_formats.h"
#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

class QuantizeTest : public KernelTest {
 protected:
  // Quantizes x in `pieces` pieces and converts it back.
  Floats RoundTrip(const Floats& x, std::int64_t pieces, FtDtype format) {
    const auto n = static_cast<std::int64_t>(x.size());
    std::vector<float> sent(x.size() + 64);
    Floats out(x.size(), std::numeric_limits<float>::quiet_NaN());
    Run(api_.quantize, FtQuantize{x.data(), sent.data(), n, pieces, format, FT_F32});
    Run(api_.dequantize, FtQuantize{sent.data(), out.data(), n, pieces, format, FT_F32});
    return out;
  }
};

// Largest absolute value in the block of each element.
Tensor BlockLargest(const Floats& x, std::int64_t pieces) {
  const std::size_t n = x.size() / static_cast<std::size_t>(pieces);
  Tensor largest(x.size(), 0.0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t begin = i / n * n + i % n / FT_SCALE_BLOCK * FT_SCALE_BLOCK;
    const std::size_t end = std::min(begin + FT_SCALE_BLOCK, (i / n + 1) * n);
    for (std::size_t j = begin; j < end; ++j) {
      largest[i] = std::max(largest[i], std::abs(double{x[j]}));
    }
  }
  return largest;
}

// Bound: half a step. bf16: 2^-8 of the number. e4m3: 2^-4 of it, or half the smallest step, 2^-10
// of 1/448 of the block's largest. int8: half of 1/127 of the largest. Scaling adds 4 rounding
// errors.
TEST_P(QuantizeTest, ErrsByHalfAStepAtMost) {
  for (const FtDtype format : {FT_BF16, FT_FP8, FT_I8}) {
    for (const std::int64_t pieces : {1, 3}) {
      for (const std::int64_t each : {4, 16, 252, 256, 260, 1040}) {
        SCOPED_TRACE("format " + std::to_string(format) + ", " + std::to_string(pieces) + " x " +
                     std::to_string(each));
        const Floats x = Random(pieces * each, 7, 0.02F);
        const Tensor largest = BlockLargest(x, pieces);
        Tensor bound;
        for (std::size_t i = 0; i < x.size(); ++i) {
          const double size = std::abs(double{x[i]});
          const double step = format == FT_BF16  ? size / 256
                              : format == FT_FP8 ? std::max(size / 16, largest[i] / 448 / 1024)
                                                 : largest[i] / 254;
          bound.push_back(step + 4 * kUnit * largest[i]);
        }
        ExpectClose(RoundTrip(x, pieces, format), ToDouble(x), bound, "round trip");
      }
    }
  }
}

TEST_P(QuantizeTest, KeepsZerosAndTheLargestOfABlock) {
  Floats x(512, 0.0F);
  x[300] = -3.0F;
  for (const FtDtype format : {FT_BF16, FT_FP8, FT_I8}) {
    const Floats out = RoundTrip(x, 1, format);
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(out[i], x[i], i == 300 ? 3e-7F : 0.0F) << i;
    }
  }
}

TEST_P(QuantizeTest, FlushesBlocksOfTinyNumbersToZero) {
  Floats x(256, 1e-40F);
  x[3] = -std::numeric_limits<float>::denorm_min();
  for (const FtDtype format : {FT_FP8, FT_I8}) {
    for (const float out : RoundTrip(x, 1, format)) EXPECT_EQ(std::abs(out), 0.0F);
  }
}

TEST_P(QuantizeTest, HidesNoInfinityAndNoNan) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    Floats x = Random(512, 1);
    x[5] = bad;
    for (const FtDtype format : {FT_BF16, FT_FP8, FT_I8}) {
      const Floats out = RoundTrip(x, 1, format);
      EXPECT_FALSE(std::isfinite(out[5])) << format;
      EXPECT_TRUE(std::isfinite(out[256])) << format;
    }
  }
}

TEST_P(QuantizeTest, RefusesOddPiecesAndOtherFormats) {
  Floats x(8), out(16);
  const FtQuantize odd{x.data(), out.data(), 6, 1, FT_I8, FT_F32};
  EXPECT_EQ(api_.quantize(queue_.get(), &odd), FT_FAILED);
  const FtQuantize other{x.data(), out.data(), 8, 1, FT_F64, FT_F32};
  EXPECT_EQ(api_.dequantize(queue_.get(), &other), FT_UNSUPPORTED);
}

// Bit for bit the result of base/numeric/nf4.h: sums of so few fp32 numbers of similar size are
// exact in fp64 in any order. Sizes include half a byte, part of a block, and a second scale.
TEST_P(QuantizeTest, Nf4IsThatOfBase) {
  for (const std::int64_t n : {1, 2, 63, 64, 65, 1000, 64 * 256 + 77}) {
    const Floats x = Random(n, static_cast<std::uint32_t>(n), 0.02F);
    const Nf4Layout layout(n);
    std::vector<std::uint8_t> expected(static_cast<std::size_t>(layout.bytes)),
        packed(expected.size(), 0xcd);
    QuantizeNf4(x.data(), n, expected.data());
    Run(api_.quantize, FtQuantize{x.data(), packed.data(), n, 1, FT_NF4, FT_F32});
    EXPECT_EQ(packed, expected) << n;
    Floats back(x.size()), out(x.size());
    DequantizeNf4(expected.data(), n, back.data());
    Run(api_.dequantize, FtQuantize{expected.data(), out.data(), n, 1, FT_NF4, FT_F32});
    EXPECT_EQ(Bits(out), Bits(back)) << n;
  }
}

TEST_P(QuantizeTest, Nf4BecomesShortNumbersRoundedOnce) {
  const std::int64_t n = 200;
  const Floats x = Random(n, 3);
  std::vector<std::uint8_t> packed(static_cast<std::size_t>(Nf4Layout(n).bytes));
  QuantizeNf4(x.data(), n, packed.data());
  Floats back(x.size());
  DequantizeNf4(packed.data(), n, back.data());
  std::vector<std::uint16_t> expected(x.size()), out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) expected[i] = Bf16OfFloat(back[i]);
  Run(api_.dequantize, FtQuantize{packed.data(), out.data(), n, 1, FT_NF4, FT_BF16});
  EXPECT_EQ(out, expected);
}

TEST_P(QuantizeTest, Nf4RefusesPieces) {
  Floats x(128), out(128);
  const FtQuantize pieces{x.data(), out.data(), 128, 2, FT_NF4, FT_F32};
  EXPECT_EQ(api_.quantize(queue_.get(), &pieces), FT_UNSUPPORTED);
  EXPECT_EQ(api_.dequantize(queue_.get(), &pieces), FT_UNSUPPORTED);
}

FT_TEST_ALL_VARIANTS(QuantizeTest);

}  // namespace
}  // namespace foretrain::test
