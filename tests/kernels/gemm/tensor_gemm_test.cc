// Products of 16-bit matrices with 16-byte-aligned rows, which run on tensor cores. Numbers are
// small integers, so products and sums are exact in fp32 in any order. The stored result is the
// plain sum, rounded once.
#include <cmath>
#include <vector>

#include "kernels/cpu/wide_copies.h"
#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

using Codes = std::vector<std::uint16_t>;

// Integers from -3 to 3.
Floats Whole(std::int64_t n, std::uint32_t seed) {
  Floats x = Random(n, seed, 3.4F);
  for (float& value : x) value = std::round(value);
  return x;
}

Codes Shortened(FtDtype dtype, const Floats& x) {
  Codes codes(x.size());
  Narrow(dtype, x.data(), codes.data(), static_cast<std::int64_t>(x.size()));
  return codes;
}

class TensorGemmTest : public KernelTest {
 protected:
  struct Sizes {
    std::int64_t m, n, k;
    bool trans_a = false, trans_b = false;
  };

  // c[m, n] = op(a) op(b), with rows of a, b and c eight numbers wider than needed.
  void Check(const Sizes& s, FtDtype dtype) {
    SCOPED_TRACE(testing::Message() << s.m << " x " << s.n << " x " << s.k << " transposed "
                                    << s.trans_a << s.trans_b << " dtype " << dtype);
    FtGemm g{};
    g.m = s.m, g.n = s.n, g.k = s.k, g.dtype = g.bias_dtype = g.c_dtype = dtype;
    g.trans_a = s.trans_a ? 1 : 0, g.trans_b = s.trans_b ? 1 : 0;
    g.lda = (s.trans_a ? s.m : s.k) + 8, g.ldb = (s.trans_b ? s.k : s.n) + 8, g.ldc = s.n + 8;
    const Floats a = Whole((s.trans_a ? s.k : s.m) * g.lda, 1),
                 b = Whole((s.trans_b ? s.n : s.k) * g.ldb, 2), bias = Whole(s.n, 3),
                 before = Whole(s.m * g.ldc, 4);
    Floats product = before, sum = before;  // columns outside the product stay
    for (std::int64_t i = 0; i < s.m; ++i) {
      for (std::int64_t j = 0; j < s.n; ++j) {
        float of = 0.0F;
        for (std::int64_t d = 0; d < s.k; ++d) {
          of += a[static_cast<std::size_t>(s.trans_a ? d * g.lda + i : i * g.lda + d)] *
                b[static_cast<std::size_t>(s.trans_b ? j * g.ldb + d : d * g.ldb + j)];
        }
        const auto at = static_cast<std::size_t>(i * g.ldc + j);
        product[at] = of + bias[static_cast<std::size_t>(j)];
        sum[at] += 2.0F * of;
      }
    }
    const Codes of_a = Shortened(dtype, a), of_b = Shortened(dtype, b),
                of_bias = Shortened(dtype, bias);
    Codes c = Shortened(dtype, before);
    g.a = of_a.data(), g.b = of_b.data(), g.bias = of_bias.data(), g.c = c.data();
    Run(api_.gemm, g);
    EXPECT_EQ(c, Shortened(dtype, product));
    Floats wide = before;
    g.bias = nullptr, g.c = wide.data(), g.c_dtype = FT_F32, g.accumulate = 1, g.scale = 2.0F;
    Run(api_.gemm, g);
    EXPECT_EQ(wide, sum);
  }
};

// All four ways to store operands, larger than a tile, with and without remainders in each
// direction.
TEST_P(TensorGemmTest, MultipliesAllTranspositions) {
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      Check({8, 8, 8, trans_a, trans_b}, FT_BF16);
      Check({136, 72, 80, trans_a, trans_b}, FT_BF16);
      Check({64, 144, 136, trans_a, trans_b}, FT_F16);
    }
  }
}

// Numbers of rows that are no multiple of 8; only sizes along a row must be.
TEST_P(TensorGemmTest, TakesAnyNumberOfRows) {
  Check({1, 16, 64, false, false}, FT_BF16);
  Check({131, 16, 24, false, false}, FT_BF16);
  Check({33, 37, 64, false, true}, FT_BF16);
  Check({24, 16, 77, true, false}, FT_F16);
}

// Runs of experts 0, 1, 2 of two ranks: one is empty, one longer than a tile.
class TensorExpertsTest : public TensorGemmTest {
 protected:
  static constexpr std::int64_t kExperts = 3, kGroups = 6, kRows = 196;
  const Ids counts_ = {5, 0, 140, 17, 33, 1};

  // Calls run(expert, row) for each row of a run.
  template <class Use>
  void ForRows(const Use& use) const {
    std::int64_t row = 0;
    for (std::size_t run = 0; run < counts_.size(); ++run) {
      for (std::int32_t i = 0; i < counts_[run]; ++i) {
        use(static_cast<std::int64_t>(run) % kExperts, row++);
      }
    }
  }

  void Check(FtGroupedMode mode, FtDtype dtype, std::int64_t out, std::int64_t in) {
    const bool weight = mode == FT_GROUPED_WEIGHT, forward = mode == FT_GROUPED_FORWARD;
    const std::int64_t left = forward ? in : out, right = forward ? out : in;
    const Floats a = Whole(kRows * left, 1),
                 b = Whole(weight ? kRows * in : kExperts * out * in, 2),
                 before = Whole(weight ? kExperts * out * in : kRows * right, 3);
    Floats sum = before;
    ForRows([&](std::int64_t expert, std::int64_t row) {
      for (std::int64_t o = 0; o < out; ++o) {
        for (std::int64_t i = 0; i < in; ++i) {
          const auto w = static_cast<std::size_t>((expert * out + o) * in + i);
          const auto by_out = static_cast<std::size_t>(row * out + o);
          const auto by_in = static_cast<std::size_t>(row * in + i);
          if (forward) sum[by_out] += a[by_in] * b[w];
          if (mode == FT_GROUPED_INPUT) sum[by_in] += a[by_out] * b[w];
          if (weight) sum[w] += a[by_out] * b[by_in];
        }
      }
    });
    const Codes of_a = Shortened(dtype, a), of_b = Shortened(dtype, b);
    Floats c = before;
    FtGroupedGemm g{};
    g.a = of_a.data(), g.b = of_b.data(), g.c = c.data(), g.counts = counts_.data();
    g.rows = kRows, g.out = out, g.in = in, g.experts = kExperts, g.groups = kGroups;
    g.mode = mode, g.accumulate = 1, g.dtype = dtype, g.c_dtype = FT_F32;
    Run(api_.grouped_gemm, g);
    EXPECT_EQ(c, sum) << "mode " << mode << " dtype " << dtype;
  }
};

TEST_P(TensorExpertsTest, MultipliesRaggedRuns) {
  for (const FtGroupedMode mode : {FT_GROUPED_FORWARD, FT_GROUPED_INPUT, FT_GROUPED_WEIGHT}) {
    Check(mode, FT_BF16, 72, 136);
    Check(mode, FT_F16, 16, 24);
  }
}

// All runs have the same number of rows.
TEST_P(TensorExpertsTest, MultipliesEvenRuns) {
  const Floats a = Whole(12 * 16, 1), b = Whole(2 * 8 * 16, 2);
  const Codes of_a = Shortened(FT_BF16, a), of_b = Shortened(FT_BF16, b);
  Floats c(12 * 8), expected(c.size());
  for (std::size_t row = 0; row < 12; ++row) {
    const std::size_t expert = row / 3 % 2;
    for (std::size_t o = 0; o < 8; ++o) {
      for (std::size_t i = 0; i < 16; ++i) {
        expected[row * 8 + o] += a[row * 16 + i] * b[(expert * 8 + o) * 16 + i];
      }
    }
  }
  FtGroupedGemm g{};
  g.a = of_a.data(), g.b = of_b.data(), g.c = c.data();
  g.rows = 12, g.out = 8, g.in = 16, g.experts = 2, g.groups = 4;
  g.mode = FT_GROUPED_FORWARD, g.dtype = FT_BF16, g.c_dtype = FT_F32;
  Run(api_.grouped_gemm, g);
  EXPECT_EQ(c, expected);
}

FT_TEST_ALL_VARIANTS(TensorGemmTest);
FT_TEST_ALL_VARIANTS(TensorExpertsTest);

}  // namespace
}  // namespace foretrain::test
