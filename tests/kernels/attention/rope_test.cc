#include <cmath>
#include <limits>
#include <string>

#include "base/numeric/number_formats.h"
#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class RopeTest : public KernelTest {
 protected:
  // Rotates x[rows, heads, head_dim] stored in rows that are 5 longer; the rest of a row holds NaN.
  Floats Rotate(const reference::RopeShape& s, const Floats& x, float theta,
                const FtRope& stretched = {}) {
    const std::int64_t width = s.heads * s.head_dim;
    const std::int64_t rows = static_cast<std::int64_t>(x.size()) / width;
    const std::int64_t stride = width + 5;
    Floats data(static_cast<std::size_t>(rows * stride), kNan);
    const auto place = [&](std::size_t i) {
      const auto at = static_cast<std::int64_t>(i);
      return static_cast<std::size_t>(at / width * stride + at % width);
    };
    for (std::size_t i = 0; i < x.size(); ++i) {
      data[place(i)] = x[i];
    }
    FtRope rope = stretched;
    rope.data = data.data();
    rope.rows = rows;
    rope.row_stride = stride;
    rope.sequence = s.sequence;
    rope.heads = static_cast<std::int32_t>(s.heads);
    rope.head_dim = static_cast<std::int32_t>(s.head_dim);
    rope.inverse = s.inverse;
    rope.theta = theta;
    Run(api_.rope, rope);
    Floats y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      y[i] = data[place(i)];
    }
    for (std::int64_t i = 0; i < rows * stride; ++i) {
      if (i % stride >= width) {
        EXPECT_TRUE(std::isnan(data[static_cast<std::size_t>(i)])) << i;
      }
    }
    return y;
  }
};

// Sine and cosine are rounded once. Two products of numbers below 1 and a sum: 2 * 2 + 2 rounding
// errors of numbers up to 2.
constexpr double kBound = 6.0 * kUnit * 2.0;

TEST_P(RopeTest, EqualsTheReferenceAtRaggedSizes) {
  for (const std::int64_t head_dim : {2, 30, 32, 34, 66, 130}) {
    for (const std::int64_t sequence : kRaggedSizes) {
      for (const bool inverse : {false, true}) {
        const reference::RopeShape s{
            .sequence = sequence, .heads = 3, .head_dim = head_dim, .inverse = inverse};
        const Floats x = Random(2 * sequence * 3 * head_dim, 1);
        ExpectClose(Rotate(s, x, 10000.0F), reference::Rope(s, ToDouble(x)), {kBound}, "rope");
      }
    }
  }
}

// The recurrence of angles must not drift over 5,000 positions, with several restarts, at Llama 3's
// theta.
TEST_P(RopeTest, StaysExactOverLongSequences) {
  const reference::RopeShape s{.sequence = 5000, .heads = 1, .head_dim = 16, .theta = 500000.0};
  const Floats x = Random(5000 * 16, 1);
  ExpectClose(Rotate(s, x, 500000.0F), reference::Rope(s, ToDouble(x)), {kBound}, "rope");
}

// Queries at position p grow by 1 + 0.5 ln(1 + floor((p + 1) / 3)): 1, 1, 1 + 0.5 ln 2, ... The
// second of two heads stays, as keys do. The inverse is the same product. Documents of 100 rows
// have positions of their own.
TEST_P(RopeTest, GrowsQueriesWithThePosition) {
  const std::int64_t n = 700, width = 6;
  const Floats x = Random(n * 2 * width, 1);
  std::vector<std::int32_t> starts;
  for (std::int32_t p = 0; p < n; ++p) {
    starts.push_back(p / 100 * 100);
  }
  for (const bool documents : {false, true}) {
    Tensor expected = ToDouble(x), tolerance(x.size(), 0.0);
    for (std::int64_t p = 0; p < n; ++p) {
      const auto position = static_cast<double>(documents ? p % 100 : p);
      const double factor = 1 + 0.5 * std::log(1 + std::floor((position + 1) / 3));
      for (std::int64_t c = 0; c < width; ++c) {
        const auto i = static_cast<std::size_t>(p * 2 * width + c);
        expected[i] *= factor;
        // The factor and the product are rounded.
        tolerance[i] = 2.01 * kUnit * std::abs(expected[i]);
      }
    }
    for (const int inverse : {0, 1}) {
      Floats y = x;
      FtRope rope{};
      rope.data = y.data();
      rope.rows = rope.sequence = n;
      rope.row_stride = 2 * width;
      rope.heads = 1;
      rope.head_dim = static_cast<std::int32_t>(width);
      rope.inverse = inverse;
      rope.stretch = FT_ROPE_QUERY_GROWTH;
      rope.factor = 0.5F;
      rope.original = 3;
      if (documents) rope.document_starts = starts.data();
      Run(api_.rope, rope);
      ExpectClose(y, expected, tolerance, "growth");
    }
  }
}

TEST_P(RopeTest, LeavesTheFirstPositionAlone) {
  const Floats x = Random(64, 1);
  EXPECT_EQ(Rotate({.sequence = 1, .heads = 1, .head_dim = 64}, x, 10000.0F), x);
}

TEST_P(RopeTest, KeepsNan) {
  Floats x = Random(3 * 64, 1);
  x[64 + 40] = kNan;
  const Floats y = Rotate({.sequence = 3, .heads = 1, .head_dim = 64}, x, 10000.0F);
  for (std::size_t i = 0; i < y.size(); ++i) {
    EXPECT_EQ(std::isnan(y[i]), i == 64 + 40 || i == 64 + 8) << i;
  }
}

// Rows of two samples with pieces of a longer sequence. Each piece is rotated by its positions
// there.
TEST_P(RopeTest, RotatesRunsByTheirPositions) {
  const std::int64_t n = 700, width = 6, rows = 4;  // past a restart of the angles
  const std::vector<FtRun> runs = {{0, 510, 3}, {3, 2, 1}};
  const Floats whole = Random(n * width, 1);
  const Floats expected = Rotate({.sequence = n, .heads = 1, .head_dim = width}, whole, 10000.0F);
  Floats part, rotated;
  for (int sample = 0; sample < 2; ++sample) {
    for (const std::int64_t position : {510, 511, 512, 2}) {
      for (std::int64_t c = 0; c < width; ++c) {
        part.push_back(whole[static_cast<std::size_t>(position * width + c)]);
        rotated.push_back(expected[static_cast<std::size_t>(position * width + c)]);
      }
    }
  }
  FtRope rope{};
  rope.data = part.data();
  rope.rows = 2 * rows;
  rope.row_stride = width;
  rope.sequence = rows;
  rope.heads = 1;
  rope.head_dim = static_cast<std::int32_t>(width);
  rope.theta = 10000.0F;
  rope.runs = runs.data();
  rope.run_count = 2;
  Run(api_.rope, rope);
  ExpectClose(part, ToDouble(rotated), {kUnit}, "rope");
}

// Heads of 10 with 4 rotated elements: these are rotated like heads of 4, the rest stays.
TEST_P(RopeTest, TurnsTheFirstElementsOfAHeadAlone) {
  const std::int64_t rows = 7, heads = 3, dim = 10, turned = 4;
  const Floats x = Random(rows * heads * dim, 1);
  Floats y = x, part;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (static_cast<std::int64_t>(i) % dim < turned) part.push_back(x[i]);
  }
  FtRope rope{};
  rope.data = y.data();
  rope.rows = rope.sequence = rows;
  rope.row_stride = heads * dim;
  rope.heads = static_cast<std::int32_t>(heads);
  rope.head_dim = static_cast<std::int32_t>(turned);
  rope.head_stride = static_cast<std::int32_t>(dim);
  rope.theta = 10000.0F;
  Run(api_.rope, rope);
  const Floats expected =
      Rotate({.sequence = rows, .heads = heads, .head_dim = turned}, part, 10000.0F);
  std::size_t next = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool turns = static_cast<std::int64_t>(i) % dim < turned;
    EXPECT_EQ(y[i], turns ? expected[next++] : x[i]) << i;
  }
}

// In 16 bits too, the rest of a head stays, and rotated elements are the fp32 result rounded once.
TEST_P(RopeTest, TurnsTheFirstElementsOfAHeadAloneInShortTensors) {
  const std::int64_t rows = 3, heads = 2, dim = 6, turned = 2;
  std::vector<std::uint16_t> data;
  Floats wide;
  for (std::int64_t i = 0; i < rows * heads * dim; ++i) {
    data.push_back(static_cast<std::uint16_t>(0x3f80 + i));  // bf16 numbers from 1 on
    wide.push_back(FloatOfBf16(data.back()));
  }
  const std::vector<std::uint16_t> before = data;
  FtRope rope{};
  rope.data = data.data();
  rope.rows = rope.sequence = rows;
  rope.row_stride = heads * dim;
  rope.heads = static_cast<std::int32_t>(heads);
  rope.head_dim = 2;
  rope.head_stride = static_cast<std::int32_t>(dim);
  rope.theta = 10000.0F;
  rope.dtype = FT_BF16;
  Run(api_.rope, rope);
  rope.data = wide.data();
  rope.dtype = FT_F32;
  Run(api_.rope, rope);
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (static_cast<std::int64_t>(i) % dim >= turned) {
      EXPECT_EQ(data[i], before[i]) << i;
    } else {
      EXPECT_EQ(data[i], Bf16OfFloat(wide[i])) << i;
    }
  }
}

// Computed by hand for theta 10000 and 4 pairs: frequencies 1, 0.1, 0.01 and 0.001. First, all are
// divided by 4. Second, only between pairs 1 and 3, so half of pair 2 is divided. Third, by
// wavelength: 2000 f / 2 pi is 318, 31.8, 3.18 and 0.318 turns. Frequencies above 4 turns stay,
// those below 1 are divided, and 3.18 turns keep (3.1831 - 1) / 3 = 0.727697.
TEST_P(RopeTest, StretchesFrequencies) {
  reference::RopeShape s{.sequence = 40, .heads = 2, .head_dim = 8};
  const Floats x = Random(2 * 40 * 16, 1);
  FtRope rope{};
  rope.stretch = FT_ROPE_LINEAR;
  rope.factor = 4.0F;
  s.frequencies = {0.25, 0.025, 0.0025, 0.00025};
  ExpectClose(Rotate(s, x, 10000.0F, rope), reference::Rope(s, ToDouble(x)), {kBound}, "linear");
  rope.stretch = FT_ROPE_YARN;
  rope.low = 1.0F;
  rope.high = 3.0F;
  rope.magnitude = 1.25F;
  s.frequencies = {1.0, 0.1, 0.00625, 0.00025};
  s.magnitude = 1.25;
  ExpectClose(Rotate(s, x, 10000.0F, rope), reference::Rope(s, ToDouble(x)), {2 * kBound}, "yarn");
  rope.stretch = FT_ROPE_LLAMA3;
  rope.magnitude = 0.0F;
  rope.low = 1.0F;
  rope.high = 4.0F;
  rope.original = 2000.0F;
  const double kept = (2000.0 * 0.01 / (2.0 * std::acos(-1.0)) - 1.0) / 3.0;
  EXPECT_NEAR(kept, 0.7276996, 1e-6);
  s.frequencies = {1.0, 0.1, 0.01 * kept + 0.0025 * (1.0 - kept), 0.00025};
  s.magnitude = 1.0;
  ExpectClose(Rotate(s, x, 10000.0F, rope), reference::Rope(s, ToDouble(x)), {kBound}, "llama3");
}

TEST(RopeReference, InverseIsTheDifferenceGradient) {
  const reference::RopeShape s{.sequence = 3, .heads = 2, .head_dim = 4, .theta = 100.0};
  reference::RopeShape inverse = s;
  inverse.inverse = true;
  const Tensor x = ToDouble(Random(24, 1));
  const Tensor dy = ToDouble(Random(24, 2));
  ExpectGradient(
      reference::Rope(inverse, dy), x,
      [&](const Tensor& v) { return Dot(reference::Rope(s, v), dy); }, "x");
}

FT_TEST_ALL_VARIANTS(RopeTest);

}  // namespace
}  // namespace foretrain::test
