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

// Integers from -3 to 3; no -0, whose sign depends on the order of a sum.
Floats Whole(std::int64_t n, std::uint32_t seed) {
  Floats x = Random(n, seed, 3.4F);
  for (float& value : x) value = std::round(value) + 0.0F;
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

// Experts' products by each kind of kernels that the device has: on compute capability 9.0 also
// those with wgmma.
class TensorExpertsTest : public KernelTest {
 protected:
  struct Sizes {
    Ids counts;  // rows of each run
    std::int64_t experts, out, in;
    FtDtype dtype = FT_BF16, c_dtype = FT_F32;
    bool accumulate = true, equal = false;
  };

  std::vector<FtTensorKernels> Kinds() {
    std::vector<FtTensorKernels> kinds{FT_TENSOR_MMA};
    if (api_.tensor_use != nullptr && Use(FT_TENSOR_WGMMA) == FT_OK) {
      kinds.push_back(FT_TENSOR_WGMMA);
    }
    return kinds;
  }
  FtStatus Use(FtTensorKernels kernels) {
    return api_.tensor_use(queue_.get(), FT_KERNEL_GROUPED_GEMM, kernels);
  }

  // Adds the product to c; runs follow each other.
  static void Add(FtGroupedMode mode, const Sizes& s, const Floats& a, const Floats& b, Floats& c) {
    std::int64_t row = 0;
    for (std::size_t run = 0; run < s.counts.size(); ++run) {
      const std::int64_t expert = static_cast<std::int64_t>(run) % s.experts;
      for (std::int32_t i = 0; i < s.counts[run]; ++i, ++row) {
        for (std::int64_t o = 0; o < s.out; ++o) {
          for (std::int64_t n = 0; n < s.in; ++n) {
            const auto w = static_cast<std::size_t>((expert * s.out + o) * s.in + n);
            const auto by_out = static_cast<std::size_t>(row * s.out + o);
            const auto by_in = static_cast<std::size_t>(row * s.in + n);
            if (mode == FT_GROUPED_FORWARD) c[by_out] += a[by_in] * b[w];
            if (mode == FT_GROUPED_INPUT) c[by_in] += a[by_out] * b[w];
            if (mode == FT_GROUPED_WEIGHT) c[w] += a[by_out] * b[by_in];
          }
        }
      }
    }
  }

  void Check(FtGroupedMode mode, const Sizes& s) {
    const bool weight = mode == FT_GROUPED_WEIGHT, forward = mode == FT_GROUPED_FORWARD;
    std::int64_t rows = 0;
    for (const std::int32_t count : s.counts) rows += count;
    const std::int64_t left = forward ? s.in : s.out, right = forward ? s.out : s.in;
    const Floats a = Whole(rows * left, 1),
                 b = Whole(weight ? rows * s.in : s.experts * s.out * s.in, 2),
                 before = Whole(weight ? s.experts * s.out * s.in : rows * right, 3);
    Floats sum = s.accumulate ? before : Floats(before.size());
    Add(mode, s, a, b, sum);
    const Codes of_a = Shortened(s.dtype, a), of_b = Shortened(s.dtype, b);
    FtGroupedGemm g{};
    g.a = of_a.data(), g.b = of_b.data(), g.counts = s.equal ? nullptr : s.counts.data();
    g.rows = rows, g.out = s.out, g.in = s.in, g.experts = s.experts;
    g.groups = static_cast<std::int64_t>(s.counts.size());
    g.mode = mode, g.accumulate = s.accumulate ? 1 : 0, g.dtype = s.dtype, g.c_dtype = s.c_dtype;
    for (const FtTensorKernels kind : Kinds()) {
      SCOPED_TRACE(testing::Message() << "mode " << mode << " out " << s.out << " in " << s.in
                                      << " dtype " << s.dtype << " kernels " << kind);
      if (api_.tensor_use != nullptr) {
        EXPECT_EQ(Use(kind), FT_OK);
      }
      if (s.c_dtype == FT_F32) {
        Floats c = before;
        g.c = c.data();
        Run(api_.grouped_gemm, g);
        EXPECT_EQ(c, sum);
      } else {
        Codes c = Shortened(s.c_dtype, before);
        g.c = c.data();
        Run(api_.grouped_gemm, g);
        EXPECT_EQ(c, Shortened(s.c_dtype, sum));
      }
    }
  }

  void CheckModes(const Sizes& s) {
    for (const FtGroupedMode mode : {FT_GROUPED_FORWARD, FT_GROUPED_INPUT, FT_GROUPED_WEIGHT}) {
      Check(mode, s);
    }
  }
};

// Runs of experts 0, 1, 2 of two ranks: one is empty, one longer than a tile.
TEST_P(TensorExpertsTest, MultipliesRaggedRuns) {
  const Ids counts = {5, 0, 140, 17, 33, 1};
  CheckModes({counts, 3, 72, 136, FT_BF16});
  CheckModes({counts, 3, 16, 24, FT_F16});
}

// Several tiles in each direction, and more depth than stages in shared memory hold.
TEST_P(TensorExpertsTest, MultipliesManyTilesAndStages) {
  CheckModes({{150, 70}, 2, 136, 344, FT_BF16, FT_BF16, false});
  CheckModes({{3, 261}, 2, 328, 72, FT_F16, FT_F16});
}

// More runs than a warp looks at together; most are empty.
TEST_P(TensorExpertsTest, FindsRunsAmongMany) {
  Ids counts(70);
  counts[3] = 2, counts[33] = 9, counts[34] = 130, counts[66] = 5, counts[69] = 1;
  CheckModes({counts, 35, 16, 8});
}

// All runs have the same number of rows.
TEST_P(TensorExpertsTest, MultipliesEvenRuns) {
  CheckModes({{3, 3, 3, 3}, 2, 8, 16, FT_BF16, FT_F32, false, true});
}

// Without rows, weight gradients become 0 or stay.
TEST_P(TensorExpertsTest, TakesExpertsWithoutRows) {
  CheckModes({{0, 4}, 2, 8, 16, FT_BF16, FT_F32, false});
  CheckModes({{0, 0}, 2, 8, 16});
}

FT_TEST_ALL_VARIANTS(TensorGemmTest);
FT_TEST_ALL_VARIANTS(TensorExpertsTest);

}  // namespace
}  // namespace foretrain::test
