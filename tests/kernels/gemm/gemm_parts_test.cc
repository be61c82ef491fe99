// Parts of GEMM other than the product: TF32, 8-bit codes with scales, epilogues, sums of rows.
#include <cmath>
#include <limits>
#include <vector>

#include "base/numeric/number_formats.h"
#include "kernels/cpu/wide_copies.h"
#include "tests/kernels/gemm/scaled_codes.h"
#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
using Codes = std::vector<std::uint8_t>;

std::size_t SizeOf(std::int64_t n) { return static_cast<std::size_t>(n); }

// Arguments for c[m, n] with dense a and b.
FtGemm Dense(const void* a, const void* b, void* c, const reference::GemmShape& s) {
  FtGemm g{};
  g.a = a, g.b = b, g.c = c, g.m = s.m, g.n = s.n, g.k = s.k;
  g.lda = s.trans_a ? s.m : s.k, g.ldb = s.trans_b ? s.k : s.n, g.ldc = s.n;
  g.trans_a = s.trans_a ? 1 : 0, g.trans_b = s.trans_b ? 1 : 0;
  return g;
}

Floats Rounded(Floats x) {
  for (float& value : x) value = Tf32OfFloat(value);
  return x;
}

using GemmPartsTest = KernelTest;

// Rounding to nearest changes a number by at most 2^-11 of it, and a product by 2^-10 + 2^-22. A
// GPU's library that shortens to 10 bits in another way changes twice as much.
TEST_P(GemmPartsTest, InTf32ReadsTenBitsOfTheMantissas) {
  const bool is_gpu = GetParam().cuda == CudaThreads::kGpu;
  for (const auto& [m, n, k] :
       {std::array<std::int64_t, 3>{1, 1, 1}, {33, 31, 65}, {65, 130, 300}}) {
    for (const int trans : {0, 1, 2, 3}) {
      const reference::GemmShape shape{m, n, k, (trans & 1) != 0, (trans & 2) != 0};
      const Floats a = Random(m * k, 1), b = Random(k * n, 2);
      Floats c(SizeOf(m * n), kNan);
      FtGemm g = Dense(a.data(), b.data(), c.data(), shape);
      g.compute = FT_TF32;
      Run(api_.gemm, g);
      const Tensor sizes = reference::Gemm(shape, Absolute(ToDouble(a)), Absolute(ToDouble(b)), {});
      const double lost = (is_gpu ? 2.0 : 1.0) * (0x1p-10 + 0x1p-22);
      ExpectClose(c, reference::Gemm(shape, ToDouble(a), ToDouble(b), {}),
                  Scaled(sizes, lost + Roundings(k + 4)), "of fp32");
      if (is_gpu) continue;
      ExpectClose(c, reference::Gemm(shape, ToDouble(Rounded(a)), ToDouble(Rounded(b)), {}),
                  Scaled(sizes, Roundings(k + 4)), "of what is read");
    }
  }
}

// 1 + 2^-11 lies between two TF32 numbers, of which 1 is even. The other operand is exact.
TEST_P(GemmPartsTest, InTf32RoundsHalvesToEvenAndInFp32NotAtAll) {
  const float between = 1.0F + 0x1p-11F, one = 1.0F;
  float c = 0.0F;
  FtGemm g = Dense(&between, &one, &c, {1, 1, 1});
  Run(api_.gemm, g);
  EXPECT_EQ(c, between);
  g.compute = FT_TF32;
  Run(api_.gemm, g);
  // A GPU's library may use fp32 for a product this small, and then rounds nothing.
  const bool is_gpu = GetParam().cuda == CudaThreads::kGpu;
  EXPECT_EQ(c, is_gpu && c == between ? between : 1.0F);
  const float odd = 1.0F + 0x1p-10F;  // representable in TF32
  g.a = &odd;
  Run(api_.gemm, g);
  EXPECT_EQ(c, odd);
}

TEST_P(GemmPartsTest, OfExpertsInTf32ReadsTenBitsToo) {
  // Experts 0 and 1 have two rows each and one output: sums of 1 + 2^-11 (read as 1), and of 2.
  const Floats x(8, 1.0F + 0x1p-11F), w = {1.0F, 1.0F, 2.0F, 2.0F};
  Floats y(4, kNan);
  FtGroupedGemm g{};
  g.a = x.data(), g.b = w.data(), g.c = y.data();
  g.rows = 4, g.out = 1, g.in = 2, g.experts = 2, g.groups = 2, g.compute = FT_TF32;
  Run(api_.grouped_gemm, g);
  EXPECT_EQ(y, (Floats{2.0F, 2.0F, 4.0F, 4.0F}));
}

// ---- epilogues

struct Ends {
  Floats aux, c;
};

// Computes a product with an epilogue by one entry and by two, in fp32. Rows of aux and c are wider
// than needed.
class EpilogueTest : public KernelTest {
 protected:
  static constexpr std::int64_t kRows = 33, kCols = 40, kDepth = 24, kWide = kCols + 3;

  Ends Fused(FtEpilogue epilogue, FtActivation activation, const Floats& aux, bool has_bias) {
    Ends ends{aux, Floats(SizeOf(kRows * kWide), kNan)};
    FtGemm g = Dense(a_.data(), b_.data(), ends.c.data(), {kRows, kCols, kDepth, false, true});
    g.ldc = g.ld_aux = kWide, g.epilogue = epilogue, g.activation = activation;
    g.aux = ends.aux.data(), g.bias = has_bias ? bias_.data() : nullptr;
    Run(api_.gemm, g);
    return ends;
  }
  Floats Product(bool has_bias) {
    Floats y(SizeOf(kRows * kWide), kNan);
    FtGemm g = Dense(a_.data(), b_.data(), y.data(), {kRows, kCols, kDepth, false, true});
    g.ldc = kWide, g.bias = has_bias ? bias_.data() : nullptr;
    Run(api_.gemm, g);
    return y;
  }

  // Sizes for which GELU is neither 0 nor the number itself.
  const Floats a_ = Random(kRows * kDepth, 1), b_ = Random(kCols * kDepth, 2),
               bias_ = Random(kCols, 3);
};

// On the host the epilogue applies the same function to the same fp32 number, so the bits are
// equal. A GPU's library has functions of its own. For numbers of this size cuBLASLt's GELU is off
// by less than kGeluError, and its derivative of GELU by up to 6.3e-5 (13.0 on an H200).
constexpr double kGeluError = 1e-5, kSlopeError = 1e-4;
void ExpectEqualRows(const Floats& actual, const Floats& expected, std::int64_t cols,
                     std::int64_t wide, bool is_gpu, double error = kGeluError) {
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (static_cast<std::int64_t>(i) % wide >= cols) {
      EXPECT_TRUE(std::isnan(actual[i])) << "written beside the matrix at " << i;
    } else if (is_gpu) {
      EXPECT_NEAR(actual[i], expected[i], error) << i;
    } else {
      EXPECT_EQ(actual[i], expected[i]) << i;
    }
  }
}

TEST_P(EpilogueTest, ActivatesAndKeepsWhatItActivated) {
  const bool is_gpu = GetParam().cuda == CudaThreads::kGpu;
  for (const FtActivation f : {FT_GELU_TANH, FT_GELU_ERF, FT_RELU, FT_SQUARED_RELU}) {
    for (const bool has_bias : {false, true}) {
      SCOPED_TRACE(testing::Message() << "activation " << f << " bias " << has_bias);
      const Ends ends =
          Fused(FT_EPILOGUE_ACTIVATE, f, Floats(SizeOf(kRows * kWide), kNan), has_bias);
      const Floats y = Product(has_bias);
      Floats expected(y.size(), kNan);
      Run(api_.gelu_forward, FtGelu{y.data(), nullptr, expected.data(), kRows * kWide, FT_F32, f});
      ExpectEqualRows(ends.aux, y, kCols, kWide, is_gpu);
      ExpectEqualRows(ends.c, expected, kCols, kWide, is_gpu);
    }
  }
}

TEST_P(EpilogueTest, ActivatesWithoutKeeping) {
  const bool is_gpu = GetParam().cuda == CudaThreads::kGpu;
  for (const FtActivation f : {FT_GELU_TANH, FT_GELU_ERF, FT_RELU, FT_SQUARED_RELU}) {
    for (const bool has_bias : {false, true}) {
      SCOPED_TRACE(testing::Message() << "activation " << f << " bias " << has_bias);
      const Ends kept =
          Fused(FT_EPILOGUE_ACTIVATE, f, Floats(SizeOf(kRows * kWide), kNan), has_bias);
      Floats c(SizeOf(kRows * kWide), kNan);
      FtGemm g = Dense(a_.data(), b_.data(), c.data(), {kRows, kCols, kDepth, false, true});
      g.ldc = kWide, g.epilogue = FT_EPILOGUE_ACTIVATE, g.activation = f;
      g.bias = has_bias ? bias_.data() : nullptr;
      Run(api_.gemm, g);
      ExpectEqualRows(c, kept.c, kCols, kWide, is_gpu);
    }
  }
}

TEST_P(EpilogueTest, MultipliesByTheSlopeOfTheActivation) {
  const bool is_gpu = GetParam().cuda == CudaThreads::kGpu;
  Floats aux = Random(kRows * kWide, 4, 4.0F);
  for (std::int64_t i = 0; i < kRows * kWide; ++i) {
    if (i % kWide >= kCols) aux[SizeOf(i)] = kNan;
  }
  for (const FtActivation f : {FT_GELU_TANH, FT_GELU_ERF, FT_RELU, FT_SQUARED_RELU}) {
    SCOPED_TRACE(testing::Message() << "activation " << f);
    const Ends ends = Fused(FT_EPILOGUE_SLOPE, f, aux, false);
    const Floats y = Product(false);
    Floats expected(y.size(), kNan);
    Run(api_.gelu_backward,
        FtGelu{aux.data(), y.data(), expected.data(), kRows * kWide, FT_F32, f});
    EXPECT_EQ(Bits(ends.aux), Bits(aux));
    ExpectEqualRows(ends.c, expected, kCols, kWide, is_gpu, kSlopeError);
  }
}

// In 16 bits, aux is y and c = f(y) in fp64, each rounded once, after a product with k additions.
// |gelu'| < 1.13. A library without such an epilogue applies f to the rounded y.
TEST_P(EpilogueTest, In16BitsRoundsWhatItStores) {
  const auto short_of = [](const Floats& x) {
    std::vector<std::uint16_t> codes(x.size());
    Narrow(FT_BF16, x.data(), codes.data(), static_cast<std::int64_t>(x.size()));
    return codes;
  };
  const auto wide_of = [](const std::vector<std::uint16_t>& codes) {
    Floats x(codes.size());
    Widen(FT_BF16, codes.data(), x.data(), static_cast<std::int64_t>(x.size()));
    return x;
  };
  const auto a = short_of(a_), b = short_of(b_), bias = short_of(bias_);
  std::vector<std::uint16_t> aux(SizeOf(kRows * kCols)), c(aux.size());
  FtGemm g = Dense(a.data(), b.data(), c.data(), {kRows, kCols, kDepth, false, true});
  g.dtype = g.c_dtype = g.bias_dtype = FT_BF16, g.bias = bias.data();
  g.aux = aux.data(), g.ld_aux = kCols, g.epilogue = FT_EPILOGUE_ACTIVATE;
  Run(api_.gemm, g);
  const reference::GemmShape shape{kRows, kCols, kDepth, false, true};
  const Tensor wide_a = ToDouble(wide_of(a)), wide_b = ToDouble(wide_of(b)),
               wide_bias = ToDouble(wide_of(bias));
  const Tensor y = reference::Gemm(shape, wide_a, wide_b, wide_bias);
  const Tensor sizes =
      reference::Gemm(shape, Absolute(wide_a), Absolute(wide_b), Absolute(wide_bias));
  const bool twice = GetParam().cuda == CudaThreads::kGpu;
  const Tensor f = reference::GeluForward(y);
  Tensor of_aux = Scaled(sizes, Roundings(kDepth + 4)), of_c = Scaled(of_aux, 1.13, 1e-6);
  for (std::size_t i = 0; i < y.size(); ++i) {
    of_aux[i] += std::abs(y[i]) * 0x1p-8;
    of_c[i] += std::abs(f[i]) * 0x1p-8 + (twice ? 1.13 * std::abs(y[i]) * 0x1p-8 : 0.0);
  }
  ExpectClose(wide_of(aux), y, of_aux, "aux");
  ExpectClose(wide_of(c), f, of_c, "c");
  g.aux = nullptr;
  Run(api_.gemm, g);
  ExpectClose(wide_of(c), f, of_c, "c alone");
}

// ---- sums of rows

TEST_P(GemmPartsTest, SumsRowsAsTheGradientOfABiasDoes) {
  for (const bool accumulate : {false, true}) {
    const std::int64_t out = 33, in = 24, rows = 130;
    const Floats dy = Random(rows * out, 1), x = Random(rows * in, 2), before = Random(out, 3);
    Floats dw = Random(out * in, 4), sums = before, expected = before;
    FtGemm g = Dense(dy.data(), x.data(), dw.data(), {out, in, rows, true, false});
    g.accumulate = accumulate ? 1 : 0, g.row_sums = sums.data();
    Run(api_.gemm, g);
    Run(api_.bias_grad,
        FtBiasGrad{dy.data(), expected.data(), rows, out, accumulate, FT_F32, FT_F32});
    if (GetParam().cuda != CudaThreads::kGpu) {
      EXPECT_EQ(Bits(sums), Bits(expected));
    } else {  // the library chooses the order
      ExpectClose(sums, ToDouble(expected), {2 * Roundings(rows + 1) * rows}, "sums");
    }
  }
}

TEST_P(GemmPartsTest, RefusesWhatItsPartsDoNotTake) {
  Floats a(16), b(16), c(16), aux(16);
  const FtGemm plain = Dense(a.data(), b.data(), c.data(), {4, 4, 4});
  const auto refused = [&](FtGemm g, const char* says) {
    EXPECT_NE(api_.gemm(queue_.get(), &g), FT_OK);
    const std::string error = api_.queue_error(queue_.get());
    EXPECT_NE(error.find(says), std::string::npos) << error;
  };
  FtGemm g = plain;
  g.compute = FT_BF16;
  refused(g, "compute 1: only f32 (0)");
  g = plain, g.a_scale = a.data();
  refused(g, "only codes of 8 bits");
  g = plain, g.epilogue = FT_EPILOGUE_ACTIVATE, g.aux = aux.data(), g.ld_aux = 3;
  refused(g, "ld_aux is 3: must be at least 4");
  g.ld_aux = 4, g.accumulate = 1;
  refused(g, "epilogue: adds to nothing");
  g.accumulate = 0, g.epilogue = FT_EPILOGUE_SLOPE, g.aux = nullptr;
  refused(g, "aux");
  g = plain, g.row_sums = aux.data();
  refused(g, "row_sums: of a dense transposed a alone");
}

// ---- codes of 8 bits

// Integers from -4 to 4 have exact codes and exact sums. The result is the sum times the scales,
// which are powers of two here.
TEST_P(GemmPartsTest, MultipliesCodesAndScalesOfBothFormats) {
  for (const FtDtype of_a : {FT_FP8, FT_E5M2}) {
    for (const auto& [m, n, k] :
         {std::array<std::int64_t, 3>{5, 7, 9}, {32, 48, 64}, {80, 16, 160}}) {
      for (const int trans : {0, 1, 2, 3}) {
        SCOPED_TRACE(testing::Message()
                     << of_a << " " << m << "x" << n << "x" << k << " " << trans);
        const reference::GemmShape shape{m, n, k, (trans & 1) != 0, (trans & 2) != 0};
        Floats a = Random(m * k, 1, 4.4F), b = Random(k * n, 2, 4.4F), bias = Random(n, 3, 4.4F);
        Codes codes_a, codes_b;
        for (float& x : a) {
          x = std::round(x);
          codes_a.push_back(of_a == FT_FP8 ? Fp8OfFloat(x) : E5m2OfFloat(x));
        }
        for (float& x : b) codes_b.push_back(Fp8OfFloat(x = std::round(x)));
        for (float& x : bias) x = std::round(x);
        Floats c(SizeOf(m * n), kNan), sums(SizeOf(m), 0.0F);
        const float a_scale = 0.5F, b_scale = 4.0F;
        FtGemm g = Dense(codes_a.data(), codes_b.data(), c.data(), shape);
        g.dtype = of_a, g.a_scale = &a_scale, g.b_scale = &b_scale, g.bias = bias.data();
        Run(api_.gemm, g);
        Tensor scaled = ToDouble(a);
        for (double& x : scaled) x *= 2.0;
        const Tensor expected = reference::Gemm(shape, scaled, ToDouble(b), ToDouble(bias));
        ExpectClose(c, expected, {0.0}, "c");
        if (!shape.trans_a) continue;
        g.bias = nullptr, g.row_sums = sums.data();
        Run(api_.gemm, g);
        Tensor of_rows = reference::BiasGrad(m, ToDouble(a));
        for (double& x : of_rows) x *= 0.5;
        ExpectClose(sums, of_rows, {0.0}, "sums of rows");
      }
    }
  }
}

// A GPU's library supports the last shape.
TEST_P(GemmPartsTest, MultipliesCodesWithScalesOfBlocks) {
  for (const auto& [m, n, k] :
       {std::array<std::int64_t, 3>{5, 7, 1}, {1, 130, 9}, {130, 140, 270}, {48, 144, 528}}) {
    for (const int trans : {0, 1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << m << "x" << n << "x" << k << " " << trans);
      const reference::GemmShape shape{m, n, k, (trans & 1) != 0, (trans & 2) != 0};
      const FtScaling of_a = shape.trans_a ? FT_SCALE_COLUMNS : FT_SCALE_ROWS,
                      of_b = shape.trans_a ? FT_SCALE_COLUMNS : FT_SCALE_TILES;
      const Scaled8 a(shape.trans_a ? k : m, shape.trans_a ? m : k, of_a, 1),
          b(shape.trans_b ? n : k, shape.trans_b ? k : n, of_b, 5);
      Floats c(SizeOf(m * n), kNan);
      FtGemm g = Dense(a.codes.data(), b.codes.data(), c.data(), shape);
      g.dtype = FT_FP8, g.a_scale = a.scales.data(), g.b_scale = b.scales.data();
      g.a_scaling = of_a, g.b_scaling = of_b;
      Run(api_.gemm, g);
      ExpectClose(c, reference::Gemm(shape, ToDouble(a.numbers), ToDouble(b.numbers), {}), {0.0},
                  "c");
    }
  }
}

// 11 rows of experts 0 and 1, 7 and 4 of them; each product is compared with that of its rows
// alone.
TEST_P(GemmPartsTest, MultipliesCodesOfExperts) {
  const std::int64_t rows = 11, out = 128, in = 40, first[] = {0, 7, 11};
  const std::vector<std::int32_t> counts = {7, 4};
  for (const bool blocks : {false, true}) {
    for (const FtGroupedMode mode : {FT_GROUPED_FORWARD, FT_GROUPED_INPUT, FT_GROUPED_WEIGHT}) {
      SCOPED_TRACE(testing::Message() << blocks << " " << mode);
      const bool forward = mode == FT_GROUPED_FORWARD, weight = mode == FT_GROUPED_WEIGHT;
      const FtScaling of_rows = !blocks  ? FT_SCALE_TENSOR
                                : weight ? FT_SCALE_COLUMNS
                                         : FT_SCALE_ROWS;
      const FtScaling of_b = !blocks ? FT_SCALE_TENSOR : weight ? of_rows : FT_SCALE_TILES;
      const std::int64_t a_cols = forward ? in : out;
      const Scaled8 a(rows, a_cols, of_rows, 1), b(weight ? rows : 2 * out, in, of_b, 5);
      Floats c(SizeOf(weight ? 2 * out * in : rows * (forward ? out : in)), kNan);
      FtGroupedGemm g{};
      g.a = a.codes.data(), g.b = b.codes.data(), g.c = c.data(), g.counts = counts.data();
      g.rows = rows, g.out = out, g.in = in, g.experts = g.groups = 2, g.mode = mode;
      g.dtype = FT_FP8, g.a_scale = a.scales.data(), g.b_scale = b.scales.data();
      g.a_scaling = of_rows, g.b_scaling = of_b;
      Run(api_.grouped_gemm, g);
      Tensor expected;
      for (int e = 0; e < 2; ++e) {
        const auto part = [&](const Floats& x, std::int64_t from, std::int64_t to) {
          return ToDouble(Floats(x.begin() + from, x.begin() + to));
        };
        const std::int64_t count = first[e + 1] - first[e];
        const Tensor of_a = part(a.numbers, first[e] * a_cols, first[e + 1] * a_cols);
        const Tensor right = weight ? part(b.numbers, first[e] * in, first[e + 1] * in)
                                    : part(b.numbers, e * out * in, (e + 1) * out * in);
        const reference::GemmShape shape{weight ? out : count, forward ? out : in,
                                         weight    ? count
                                         : forward ? in
                                                   : out,
                                         weight, forward};
        const Tensor one = reference::Gemm(shape, of_a, right, {});
        expected.insert(expected.end(), one.begin(), one.end());
      }
      ExpectClose(c, expected, {0.0}, "c");
    }
  }
}

TEST_P(GemmPartsTest, CodesWithoutScalesAreTheirNumbers) {
  const Codes a = {Fp8OfFloat(1.5F), Fp8OfFloat(-2.0F)}, b = {Fp8OfFloat(4.0F), Fp8OfFloat(0.5F)};
  float c = 1.0F;
  FtGemm g = Dense(a.data(), b.data(), &c, {1, 1, 2});
  g.dtype = FT_FP8, g.accumulate = 1, g.scale = 3.0F;
  Run(api_.gemm, g);
  EXPECT_EQ(c, 1.0F + 3.0F * (1.5F * 4.0F - 2.0F * 0.5F));
}

FT_TEST_ALL_VARIANTS(GemmPartsTest);
FT_TEST_ALL_VARIANTS(EpilogueTest);

}  // namespace
}  // namespace foretrain::test
