#include <cmath>
#include <limits>
#include <string>

#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct GemmCase {
  std::int64_t m, n, k;
  bool trans_a, trans_b, accumulate, bias;
  float scale = 1.0F;

  std::string Name() const {
    return std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) +
           (trans_a ? " ta" : "") + (trans_b ? " tb" : "") + (accumulate ? " accumulate" : "") +
           (bias ? " bias" : "");
  }
};

// Dense rows x cols with rows `gap` longer. The gap holds NaN, which must be neither used nor
// overwritten.
Floats WithGap(const Floats& dense, std::int64_t cols, std::int64_t gap) {
  Floats wide;
  for (std::size_t i = 0; i < dense.size(); ++i) {
    wide.push_back(dense[i]);
    if ((i + 1) % static_cast<std::size_t>(cols) == 0) {
      wide.insert(wide.end(), static_cast<std::size_t>(gap), kNan);
    }
  }
  return wide;
}

// Removes the gap and expects it to hold NaN still.
Floats WithoutGap(const Floats& wide, std::int64_t cols, std::int64_t gap) {
  Floats dense;
  for (std::size_t i = 0; i < wide.size(); ++i) {
    if (static_cast<std::int64_t>(i) % (cols + gap) < cols) {
      dense.push_back(wide[i]);
    } else {
      EXPECT_TRUE(std::isnan(wide[i])) << "a number was written beside the matrix at " << i;
    }
  }
  return dense;
}

class GemmTest : public KernelTest {
 protected:
  // Tolerance: a sum of k products, the bias and the old value has k + 2 additions. Each product is
  // rounded once more. The error is relative to the sum of the terms' sizes, in any order (Higham
  // 2002, s. 3.1).
  void Check(const GemmCase& c) {
    SCOPED_TRACE(c.Name());
    const Floats a = Random(c.m * c.k, 1);
    const Floats b = Random(c.k * c.n, 2);
    const Floats bias = c.bias ? Random(c.n, 3) : Floats{};
    const Floats old =
        c.accumulate ? Random(c.m * c.n, 4) : Floats(static_cast<std::size_t>(c.m * c.n), kNan);
    const std::int64_t a_cols = c.trans_a ? c.m : c.k;
    const std::int64_t b_cols = c.trans_b ? c.k : c.n;
    const Floats wide_a = WithGap(a, a_cols, 3);
    const Floats wide_b = WithGap(b, b_cols, 5);
    Floats wide_c = WithGap(old, c.n, 7);
    FtGemm g{};
    g.a = wide_a.data(), g.b = wide_b.data(), g.bias = c.bias ? bias.data() : nullptr,
    g.c = wide_c.data();
    g.m = c.m, g.n = c.n, g.k = c.k;
    g.lda = a_cols + 3, g.ldb = b_cols + 5, g.ldc = c.n + 7;
    g.trans_a = c.trans_a, g.trans_b = c.trans_b, g.accumulate = c.accumulate, g.scale = c.scale;
    Run(api_.gemm, g);
    const reference::GemmShape shape{
        .m = c.m, .n = c.n, .k = c.k, .trans_a = c.trans_a, .trans_b = c.trans_b};
    const double scale = c.scale == 0 ? 1.0 : static_cast<double>(c.scale);
    Tensor scaled_a = ToDouble(a);
    for (double& x : scaled_a) x *= scale;
    Tensor expected = reference::Gemm(shape, scaled_a, ToDouble(b), ToDouble(bias));
    Tensor sizes =
        reference::Gemm(shape, Absolute(scaled_a), Absolute(ToDouble(b)), Absolute(ToDouble(bias)));
    for (std::size_t i = 0; c.accumulate && i < expected.size(); ++i) {
      expected[i] += static_cast<double>(old[i]);
      sizes[i] += std::abs(static_cast<double>(old[i]));
    }
    ExpectClose(WithoutGap(wide_c, c.n, 7), expected, Scaled(sizes, Roundings(c.k + 4)), "c");
  }
};

TEST_P(GemmTest, EqualsTheReferenceAtRaggedSizes) {
  int turn = 0;
  for (const std::int64_t m : kRaggedSizes) {
    for (const std::int64_t n : kRaggedSizes) {
      for (const std::int64_t k : kRaggedSizes) {
        for (const int trans : {0, 1, 2, 3}) {
          // Spreads the combinations of transposes, accumulate and bias over many shapes.
          turn += 1;
          Check({m, n, k, (trans & 1) != 0, (trans & 2) != 0, turn % 3 == 0, turn % 5 < 2});
        }
      }
    }
  }
}

TEST_P(GemmTest, ScalesTheProductAndNothingElse) {
  for (const float scale : {2.0F, -0.3F, 0.0F}) {  // 0 means 1
    for (const std::int64_t size : kRaggedSizes) {
      Check({size, 33, 8, false, true, false, false, scale});
      Check({size, 8, 33, true, false, true, true, scale});
      Check({size, size, 300, false, false, true, true, scale});
    }
  }
}

TEST_P(GemmTest, EqualsTheReferenceAcrossBlocks) {
  // More than kGemmRows = 420, kGemmColumns = 2048 and kGemmDepth = 256, each twice exceeded in one
  // dimension.
  Check({851, 33, 65, false, true, true, true});
  Check({851, 33, 65, true, false, false, true});
  Check({7, 4101, 33, false, false, true, true});
  Check({7, 4101, 33, true, true, false, true});
  Check({33, 65, 777, false, true, false, true});
  Check({33, 65, 777, true, false, true, false});
}

TEST_P(GemmTest, WithoutAProductLeavesOldValueAndBias) {
  Check({33, 31, 0, false, false, true, true});
  Check({33, 31, 0, false, false, false, true});
  Check({33, 31, 0, false, false, false, false});
}

TEST_P(GemmTest, OfNoRowsOrColumnsDoesNothing) {
  FtGemm g{};
  g.n = 4, g.k = 4;
  g.lda = 4, g.ldb = 4, g.ldc = 4;
  g.scale = 1.0F;
  Run(api_.gemm, g);
}

TEST_P(GemmTest, CarriesNanToItsRowAndNoOther) {
  const std::int64_t size = 65;
  Floats a = Random(size * size, 1);
  const Floats b = Random(size * size, 2);
  a[40 * 65 + 3] = kNan;
  Floats c(a.size(), 0.0F);
  FtGemm g{};
  g.a = a.data(), g.b = b.data(), g.c = c.data();
  g.m = size, g.n = size, g.k = size;
  g.lda = size, g.ldb = size, g.ldc = size;
  g.scale = 1.0F;
  Run(api_.gemm, g);
  for (std::size_t i = 0; i < c.size(); ++i) {
    EXPECT_EQ(std::isnan(c[i]), i / 65 == 40) << i;
  }
}

// A column's bits must not depend on how many columns are computed together. Otherwise a
// tensor-parallel run would drift from a single rank's. oneDNN does not promise this.
TEST_P(GemmTest, GivesAColumnTheSameBitsInAnyCompany) {
  if (GetParam().gemm != GemmBackend::kBuiltIn) {
    GTEST_SKIP() << "holds for the built-in GEMM";
  }
  const std::int64_t m = 37;
  const std::int64_t n = 70;
  const std::int64_t k = 600;
  const Floats a = Random(m * k, 1);
  const Floats b = Random(n * k, 2);
  const auto columns = [&](std::int64_t first, std::int64_t count) {
    Floats c(static_cast<std::size_t>(m * count));
    FtGemm g{};
    g.a = a.data(), g.b = b.data() + first * k, g.c = c.data();
    g.m = m, g.n = count, g.k = k;
    g.lda = k, g.ldb = k, g.ldc = count;
    g.trans_b = 1, g.scale = 1.0F;
    Run(api_.gemm, g);
    return c;
  };
  const Floats all = columns(0, n);
  const Floats right = columns(33, 37);
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 33; j < n; ++j) {
      ASSERT_EQ(all[static_cast<std::size_t>(i * n + j)],
                right[static_cast<std::size_t>(i * 37 + j - 33)])
          << i << "," << j;
    }
  }
}

// dA = dC B^T and dB = A^T dC are the GEMMs in the backward pass of a linear layer.
TEST(GemmReference, GradientsAreTransposedProducts) {
  const reference::GemmShape shape{.m = 3, .n = 4, .k = 5};
  const Tensor a = ToDouble(Random(15, 1));
  const Tensor b = ToDouble(Random(20, 2));
  const Tensor dc = ToDouble(Random(12, 3));
  ExpectGradient(
      reference::Gemm({.m = 3, .n = 5, .k = 4, .trans_b = true}, dc, b, {}), a,
      [&](const Tensor& x) { return Dot(reference::Gemm(shape, x, b, {}), dc); }, "a");
  ExpectGradient(
      reference::Gemm({.m = 5, .n = 4, .k = 3, .trans_a = true}, a, dc, {}), b,
      [&](const Tensor& x) { return Dot(reference::Gemm(shape, a, x, {}), dc); }, "b");
  ExpectGradient(
      reference::BiasGrad(4, dc), ToDouble(Random(4, 4)),
      [&](const Tensor& x) { return Dot(reference::Gemm(shape, a, b, x), dc); }, "bias");
}

using BiasGradTest = KernelTest;

// Tolerance: `rows` additions, and one onto the old value.
TEST_P(BiasGradTest, EqualsTheReferenceAtRaggedSizes) {
  for (const std::int64_t rows : kRaggedSizes) {
    for (const std::int64_t cols : {1, 31, 32, 33, 65, 130}) {
      for (const bool accumulate : {false, true}) {
        const Floats dy = Random(rows * cols, 1);
        Floats grad = accumulate ? Random(cols, 2) : Floats(static_cast<std::size_t>(cols), kNan);
        Tensor expected = reference::BiasGrad(cols, ToDouble(dy));
        Tensor sizes = reference::BiasGrad(cols, Absolute(ToDouble(dy)));
        for (std::size_t i = 0; accumulate && i < grad.size(); ++i) {
          expected[i] += static_cast<double>(grad[i]);
          sizes[i] += std::abs(static_cast<double>(grad[i]));
        }
        Run(api_.bias_grad,
            FtBiasGrad{dy.data(), grad.data(), rows, cols, accumulate, FT_F32, FT_F32});
        ExpectClose(grad, expected, Scaled(sizes, Roundings(rows + 1)), "grad");
      }
    }
  }
}

FT_TEST_ALL_VARIANTS(GemmTest);
FT_TEST_ALL_VARIANTS(BiasGradTest);

}  // namespace
}  // namespace foretrain::test
