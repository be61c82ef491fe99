#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/numeric/number_formats.h"
#include "kernels/formats.h"
#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

using Codes = std::vector<std::uint8_t>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class QuantizeTensorTest : public KernelTest {
 protected:
  struct Made {
    Codes out, transposed;
    float scale = 0.0F, absmax = -1.0F;
  };
  Made Quantize(const Floats& x, std::int64_t cols, FtDtype format, float keep = 0.0F) {
    Made made{Codes(x.size()), Codes(x.size())};
    made.scale = keep;
    FtQuantizeTensor g{};
    g.x = x.data(), g.out = made.out.data(), g.transposed = made.transposed.data();
    g.scale = &made.scale, g.absmax = &made.absmax, g.keep_scale = keep > 0.0F ? 1 : 0;
    g.cols = cols, g.rows = cols > 0 ? static_cast<std::int64_t>(x.size()) / cols : 0;
    g.format = format;
    Run(api_.quantize_tensor, g);
    return made;
  }
  // Expects the nearest e4m3 codes, with the bounds of the test of one scale.
  static void ExpectNearest(const Floats& x, const Codes& out, const Floats& scales,
                            FtScaling scaling, std::int64_t cols) {
    Floats most(scales.size(), 0.0F);
    const auto place = [&](std::size_t i) {
      const auto at = static_cast<std::int64_t>(i);
      return static_cast<std::size_t>(ScalePlace(scaling, cols, at / cols, at % cols));
    };
    for (std::size_t i = 0; i < x.size(); ++i) {
      most[place(i)] = std::max(most[place(i)], std::abs(x[i]));
    }
    for (std::size_t i = 0; i < scales.size(); ++i) {
      ASSERT_NEAR(scales[i], most[i] / 448.0, most[i] / 448.0 * kUnit) << "scale " << i;
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double scale = scales[place(i)], size = std::abs(static_cast<double>(x[i]));
      ASSERT_NEAR(static_cast<double>(FloatOfFp8(out[i])) * scale, x[i],
                  std::max(0x1p-4 * size, 0x1p-10 * scale) + 4 * kUnit * size)
          << i;
    }
  }
  static float ValueOf(FtDtype format, std::uint8_t code) {
    return format == FT_FP8 ? FloatOfFp8(code) : FloatOfE5m2(code);
  }
};

// A code is the nearest one. Its error is half a unit in the last place: 2^-4 (e4m3) or 2^-3 (e5m2)
// of the number. For the smallest codes it is half their distance, 2^-10 or 2^-17, times the scale.
// The scale, its inverse and the product with it are rounded once each.
TEST_P(QuantizeTensorTest, RoundsToTheNearestCodeOfTheLargestNumbersScale) {
  for (const FtDtype format : {FT_FP8, FT_E5M2}) {
    const double top = format == FT_FP8 ? 448.0 : 57344.0;
    const double relative = format == FT_FP8 ? 0x1p-4 : 0x1p-3;
    const double least = format == FT_FP8 ? 0x1p-10 : 0x1p-17;
    for (const auto& [rows, cols] :
         {std::pair<std::int64_t, std::int64_t>{1, 1}, {3, 5}, {64, 64}, {65, 130}, {200, 67}}) {
      SCOPED_TRACE(testing::Message() << format << " " << rows << "x" << cols);
      Floats x = Random(rows * cols, 1, 3.0F);
      for (std::size_t i = 0; i < x.size(); i += 3) x[i] *= 1e-4F;
      x[x.size() / 2] = -7.0F;
      const Made made = Quantize(x, cols, format);
      EXPECT_EQ(made.absmax, 7.0F);
      EXPECT_NEAR(made.scale, 7.0 / top, 7.0 / top * kUnit);
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < cols; ++c) {
          const auto at = static_cast<std::size_t>(r * cols + c);
          const double value =
              static_cast<double>(ValueOf(format, made.out[at])) * static_cast<double>(made.scale);
          const double size = std::abs(static_cast<double>(x[at]));
          ASSERT_NEAR(value, x[at],
                      std::max(relative * size, least * made.scale) + 4 * kUnit * size)
              << r << "," << c;
          ASSERT_EQ(made.transposed[static_cast<std::size_t>(c * rows + r)], made.out[at]);
        }
      }
      EXPECT_EQ(std::abs(ValueOf(format, made.out[x.size() / 2])), top);
    }
  }
}

TEST_P(QuantizeTensorTest, KeepsAScaleAndEndsAtTheLargestCode) {
  const Made made = Quantize({1.0F, -3.0F, 1000.0F, -1000.0F}, 2, FT_FP8, 2.0F);
  EXPECT_EQ(made.scale, 2.0F);
  EXPECT_EQ(made.absmax, 1000.0F);
  const Codes expected = {Fp8OfFloat(0.5F), Fp8OfFloat(-1.5F), Fp8OfFloat(448.0F),
                          Fp8OfFloat(-448.0F)};
  EXPECT_EQ(made.out, expected);
}

TEST_P(QuantizeTensorTest, OfZerosIsZeros) {
  const Made made = Quantize(Floats(70, 0.0F), 7, FT_E5M2);
  EXPECT_EQ(made.scale, 0.0F);
  EXPECT_EQ(made.out, Codes(70, 0));
}

// A tensor that is not finite gets no finite scale. Then no product with it is finite, and loss
// scaling can react.
TEST_P(QuantizeTensorTest, OfWhatIsNotFiniteHasNoFiniteScale) {
  for (const float odd : {kInfinity, -kInfinity, kNan}) {
    Floats x = Random(300, 1);
    x[217] = odd;
    const Made made = Quantize(x, 30, FT_FP8);
    EXPECT_FALSE(std::isfinite(made.scale));
    EXPECT_FALSE(std::isfinite(made.absmax));
  }
}

TEST_P(QuantizeTensorTest, OfNothingWritesTheScaleAlone) {
  const Made made = Quantize({}, 0, FT_FP8);
  EXPECT_EQ(made.scale, 0.0F);
  EXPECT_EQ(made.absmax, 0.0F);
}

// Compares codes by the numbers that share a scale, as in the test above. Inputs are numbers, or
// codes whose rows have scales.
TEST_P(QuantizeTensorTest, SharesScalesByRowsColumnsAndSquaresOf128) {
  for (const FtScaling scaling : {FT_SCALE_ROWS, FT_SCALE_COLUMNS, FT_SCALE_TILES}) {
    for (const auto& size :
         {std::pair<std::int64_t, std::int64_t>{1, 1}, {3, 5}, {128, 256}, {130, 200}, {300, 64}}) {
      const std::int64_t rows = size.first, cols = size.second;
      SCOPED_TRACE(testing::Message() << scaling << " " << rows << "x" << cols);
      Floats x = Random(rows * cols, 1, 3.0F);
      for (std::size_t i = 0; i < x.size(); i += 3) x[i] *= 1e-3F;
      const auto quantize = [&](FtQuantizeTensor g, FtScaling by, Codes& out, Floats& scales) {
        out.assign(x.size(), 0xff);
        scales.assign(static_cast<std::size_t>(ScaleCount(by, rows, cols)), kNan);
        g.out = out.data(), g.scale = scales.data();
        g.rows = rows, g.cols = cols, g.format = FT_FP8, g.scaling = by;
        Run(api_.quantize_tensor, g);
      };
      FtQuantizeTensor of_numbers{}, of_codes{};
      of_numbers.x = x.data();
      Codes out, again;
      Floats scales, of_again;
      quantize(of_numbers, scaling, out, scales);
      ExpectNearest(x, out, scales, scaling, cols);
      Codes by_rows;
      Floats of_rows;
      quantize(of_numbers, FT_SCALE_ROWS, by_rows, of_rows);
      of_codes.x = by_rows.data(), of_codes.dtype = FT_FP8;
      of_codes.x_scale = of_rows.data(), of_codes.x_scaling = FT_SCALE_ROWS;
      quantize(of_codes, scaling, again, of_again);
      Floats kept(x.size());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const auto at = static_cast<std::int64_t>(i);
        kept[i] = of_rows[static_cast<std::size_t>(
                      ScalePlace(FT_SCALE_ROWS, cols, at / cols, at % cols))] *
                  FloatOfFp8(by_rows[i]);
      }
      ExpectNearest(kept, again, of_again, scaling, cols);
    }
  }
}

TEST_P(QuantizeTensorTest, OfABlockThatIsNotFiniteHasNoFiniteScaleAndOthersDo) {
  Floats x = Random(4 * 256, 1), scales(8, kNan);
  x[256 + 130] = kNan;
  Codes out(x.size());
  FtQuantizeTensor g{};
  g.x = x.data(), g.out = out.data(), g.scale = scales.data(), g.rows = 4, g.cols = 256;
  g.format = FT_FP8, g.scaling = FT_SCALE_ROWS;
  Run(api_.quantize_tensor, g);
  for (std::size_t i = 0; i < scales.size(); ++i) EXPECT_EQ(std::isfinite(scales[i]), i != 3) << i;
}

TEST_P(QuantizeTensorTest, MakesTheScaleAlone) {
  const Floats x = {1.0F, -7.0F, 3.0F};
  float scale = 0.0F;
  FtQuantizeTensor g{};
  g.x = x.data(), g.scale = &scale, g.rows = 1, g.cols = 3, g.format = FT_FP8;
  Run(api_.quantize_tensor, g);
  EXPECT_EQ(scale, 7.0F / 448.0F);
}

TEST_P(QuantizeTensorTest, RefusesOtherFormats) {
  float x = 1.0F, scale = 0.0F;
  FtQuantizeTensor g{};
  g.x = &x, g.scale = &scale, g.rows = g.cols = 1, g.format = FT_I8;
  EXPECT_EQ(api_.quantize_tensor(queue_.get(), &g), FT_UNSUPPORTED);
  const std::string error = api_.queue_error(queue_.get());
  EXPECT_NE(error.find("format 6: only fp8 (5) and e5m2 (9)"), std::string::npos) << error;
}

FT_TEST_ALL_VARIANTS(QuantizeTensorTest);

}  // namespace
}  // namespace foretrain::test
