// Products by the device's library, cuBLASLt: its arguments, the kernels run before and after it,
// and its algorithms. The library is a fake (tests/plugins/fake_cublaslt.cc). So this tests the
// calls, not the results of a GPU.
#include <gtest/gtest.h>

#include "tests/kernels/support.h"

#if FORETRAIN_HAVE_CUBLASLT
#include <cmath>
#include <limits>

#include "base/numeric/number_formats.h"
#include "kernels/cuda/device/queue.h"
#include "kernels/cuda/library/library_gemm.h"
#include "tests/kernels/gemm/scaled_codes.h"
#include "tests/plugins/fake_cublaslt.h"

namespace foretrain::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int kDefault = 1, kBias = 4, kGeluBias = 36, kGeluAux = 160, kGeluAuxBias = 164,
              kDGelu = 192,
              kBiasGrad = 512;         // cublasLtEpilogue_t
constexpr int kTf32 = 77, kFp32 = 68;  // cublasComputeType_t
using Codes = std::vector<std::uint8_t>;

class LibraryGemmTest : public testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    char why[256] = "";
    FakeLibrary() = {};
    ASSERT_EQ(MakeGemmLibrary(&QueueOf(queue_.get()).gemm, why, sizeof why), FT_OK) << why;
  }
  void TearDown() override {
    DestroyGemmLibrary(QueueOf(queue_.get()).gemm);
    QueueOf(queue_.get()).gemm = nullptr;
  }
  void Run(const FtGemm& g) {
    EXPECT_EQ(api_.gemm(queue_.get(), &g), FT_OK) << api_.queue_error(queue_.get());
  }

  static FtGemm Dense(const void* a, const void* b, void* c, const reference::GemmShape& s) {
    FtGemm g{};
    g.a = a, g.b = b, g.c = c, g.m = s.m, g.n = s.n, g.k = s.k;
    g.lda = s.trans_a ? s.m : s.k, g.ldb = s.trans_b ? s.k : s.n, g.ldc = s.n;
    g.trans_a = s.trans_a ? 1 : 0, g.trans_b = s.trans_b ? 1 : 0;
    return g;
  }

  const FtDeviceApi& api_ = ApiOf(GetParam());
  Queue queue_ = MakeQueue(GetParam());
};

// The fake sums in fp64 and rounds once, so the bound is one rounding.
TEST_P(LibraryGemmTest, DescribesAllTranspositionsWithBias) {
  for (const int trans : {0, 1, 2, 3}) {
    const reference::GemmShape shape{5, 7, 9, (trans & 1) != 0, (trans & 2) != 0};
    const Floats a = Random(45, 1), b = Random(63, 2), bias = Random(7, 3);
    Floats c(35, kNan);
    FtGemm g = Dense(a.data(), b.data(), c.data(), shape);
    g.bias = bias.data();
    Run(g);
    const Tensor expected = reference::Gemm(shape, ToDouble(a), ToDouble(b), ToDouble(bias));
    ExpectClose(c, expected, Scaled(Absolute(expected), kUnit), "c");
  }
  EXPECT_EQ(FakeLibrary().epilogues, std::vector<int>(4, kBias));
  EXPECT_EQ(FakeLibrary().compute, std::vector<int>(4, kFp32));
}

// The bias of fp32 weights with a 16-bit result: rounded to the result's format, as is the sum.
TEST_P(LibraryGemmTest, AddsABiasOfAnotherFormatThanTheResult) {
  const reference::GemmShape shape{5, 7, 8, false, true};
  const Floats bias = Random(7, 3);
  std::vector<std::uint16_t> a, b, c(35);
  Floats wide_a, wide_b, rounded_bias, wide_c;
  for (const float x : Random(40, 1)) a.push_back(Bf16OfFloat(x));
  for (const float x : Random(56, 2)) b.push_back(Bf16OfFloat(x));
  for (const std::uint16_t x : a) wide_a.push_back(FloatOfBf16(x));
  for (const std::uint16_t x : b) wide_b.push_back(FloatOfBf16(x));
  for (const float x : bias) rounded_bias.push_back(FloatOfBf16(Bf16OfFloat(x)));
  FtGemm g = Dense(a.data(), b.data(), c.data(), shape);
  g.bias = bias.data(), g.dtype = g.c_dtype = FT_BF16, g.bias_dtype = FT_F32;
  Run(g);
  for (const std::uint16_t x : c) wide_c.push_back(FloatOfBf16(x));
  const Tensor expected =
      reference::Gemm(shape, ToDouble(wide_a), ToDouble(wide_b), ToDouble(rounded_bias));
  ExpectClose(wide_c, expected, Scaled(Absolute(expected), 0x1p-8), "c");
  EXPECT_EQ(FakeLibrary().epilogues, std::vector<int>{kBias});
}

TEST_P(LibraryGemmTest, AsksForTf32WhereTheProductIsIn) {
  const float cut = 1.0F + 0x1p-11F + 0x1p-12F, one = 1.0F;
  float c = 0.0F;
  FtGemm g = Dense(&cut, &one, &c, {1, 1, 1});
  g.compute = FT_TF32;
  Run(g);
  EXPECT_EQ(c, 1.0F);  // this library truncates
  EXPECT_EQ(FakeLibrary().compute, std::vector<int>{kTf32});
}

class EndsTest : public LibraryGemmTest {
 protected:
  static constexpr std::int64_t kRows = 9, kCols = 16, kDepth = 8;
  const reference::GemmShape shape_{kRows, kCols, kDepth, false, true};
  const Floats a_ = Random(kRows * kDepth, 1), b_ = Random(kCols * kDepth, 2),
               bias_ = Random(kCols, 3);
  const Tensor y_ = reference::Gemm(shape_, ToDouble(a_), ToDouble(b_), ToDouble(bias_));
  Floats aux_ = Floats(kRows * kCols, kNan), c_ = aux_;

  // GELU by the library is in fp64, or a kernel computes it afterwards. 1e-6 bounds the kernel's
  // error for numbers of this size (derived in tests/kernels/activation_test.cc).
  void Activate() {
    FtGemm g = Dense(a_.data(), b_.data(), c_.data(), shape_);
    g.bias = bias_.data(), g.aux = aux_.data(), g.ld_aux = kCols;
    g.epilogue = FT_EPILOGUE_ACTIVATE;
    Run(g);
    ExpectClose(aux_, y_, Scaled(Absolute(y_), kUnit), "aux");
    ExpectClose(c_, reference::GeluForward(y_), {1e-6}, "c");
  }
  void ActivateAlone() {
    FtGemm g = Dense(a_.data(), b_.data(), c_.data(), shape_);
    g.bias = bias_.data(), g.epilogue = FT_EPILOGUE_ACTIVATE;
    Run(g);
    ExpectClose(c_, reference::GeluForward(y_), {1e-6}, "c alone");
  }
  void Slope() {
    const Floats aux = Random(kRows * kCols, 4, 3.0F);
    aux_ = aux;
    FtGemm g = Dense(a_.data(), b_.data(), c_.data(), shape_);
    g.aux = aux_.data(), g.ld_aux = kCols, g.epilogue = FT_EPILOGUE_SLOPE;
    Run(g);
    const Tensor y = reference::Gemm(shape_, ToDouble(a_), ToDouble(b_), {});
    EXPECT_EQ(aux_, aux);
    ExpectClose(c_, reference::GeluBackward(ToDouble(aux), y), {1e-6}, "c");
  }
};

TEST_P(EndsTest, AreTheLibrarysWhereItHasThem) {
  Activate();
  ActivateAlone();
  Slope();
  EXPECT_EQ(FakeLibrary().epilogues, (std::vector<int>{kGeluAuxBias, kGeluBias, kDGelu}));
}

TEST_P(EndsTest, AreKernelsBehindAProductWhereItHasNot) {
  FakeLibrary().refused = {kGeluBias, kGeluAux, kGeluAuxBias, kDGelu};
  Activate();
  ActivateAlone();
  Slope();
  EXPECT_EQ(FakeLibrary().epilogues, (std::vector<int>{kBias, kBias, kDefault}));
}

TEST_P(EndsTest, WithErfAreNoneOfTheLibrarys) {
  FtGemm g = Dense(a_.data(), b_.data(), c_.data(), shape_);
  g.bias = bias_.data(), g.aux = aux_.data(), g.ld_aux = kCols;
  g.epilogue = FT_EPILOGUE_ACTIVATE, g.activation = FT_GELU_ERF;
  Run(g);
  EXPECT_EQ(FakeLibrary().epilogues, std::vector<int>{kBias});
  for (std::size_t i = 0; i < c_.size(); ++i) {
    EXPECT_NEAR(c_[i], 0.5 * y_[i] * std::erfc(-y_[i] / std::sqrt(2.0)), 1e-6) << i;
  }
}

TEST_P(LibraryGemmTest, SumsOfRowsAreTheLibrarysWhereTheyOverwrite) {
  const std::int64_t out = 7, in = 5, rows = 30;
  const Floats dy = Random(rows * out, 1), x = Random(rows * in, 2);
  Floats dw(out * in, kNan), sums(out, 1.0F);
  FtGemm g = Dense(dy.data(), x.data(), dw.data(), {out, in, rows, true, false});
  g.row_sums = sums.data();
  Run(g);
  Tensor expected = reference::BiasGrad(out, ToDouble(dy));
  ExpectClose(sums, expected, Scaled(Absolute(expected), kUnit), "overwritten");
  EXPECT_EQ(FakeLibrary().epilogues, std::vector<int>{kBiasGrad});
  g.accumulate = 1;
  Run(g);
  for (double& sum : expected) sum *= 2;
  ExpectClose(sums, expected, {Roundings(rows + 2) * rows}, "added to");
  EXPECT_EQ(FakeLibrary().epilogues, (std::vector<int>{kBiasGrad, kDefault}));
}

// In forward products, the depth is along the rows of both operands. Other operands are transposed
// first, in pieces if the workspace is small. The fake refuses all formats except TN.
TEST_P(LibraryGemmTest, TurnsCodesUntilTheDepthLiesAlongRows) {
  for (const int trans : {0, 1, 2, 3}) {
    const reference::GemmShape shape{48, 32, 64, (trans & 1) != 0, (trans & 2) != 0};
    Floats a = Random(48 * 64, 1, 4.4F), b = Random(64 * 32, 2, 4.4F);
    Codes codes_a, codes_b;
    for (float& x : a) codes_a.push_back(E5m2OfFloat(x = std::round(x)));
    for (float& x : b) codes_b.push_back(Fp8OfFloat(x = std::round(x)));
    Floats c(48 * 32, kNan);
    const float a_scale = 2.0F, b_scale = 0.25F;
    FtGemm g = Dense(codes_a.data(), codes_b.data(), c.data(), shape);
    g.dtype = FT_E5M2, g.a_scale = &a_scale, g.b_scale = &b_scale;
    Run(g);
    Tensor scaled = ToDouble(a);
    for (double& x : scaled) x *= 0.5;
    ExpectClose(c, reference::Gemm(shape, scaled, ToDouble(b), {}), {0.0}, "c");
  }
  EXPECT_EQ(FakeLibrary().ran.size(), 4U);
}

// Room for 32 rows of 64 codes per side: 80 x 48 makes 3 x 2 pieces.
TEST_P(LibraryGemmTest, TurnsCodesPieceByPiece) {
  QueueOf(queue_.get()).turned_bytes = 2 * 32 * 64;
  const reference::GemmShape shape{80, 48, 64, true, false};
  Floats a = Random(80 * 64, 1, 4.4F), b = Random(64 * 48, 2, 4.4F), bias = Random(48, 3, 4.4F);
  Codes codes_a, codes_b;
  for (float& x : a) codes_a.push_back(Fp8OfFloat(x = std::round(x)));
  for (float& x : b) codes_b.push_back(Fp8OfFloat(x = std::round(x)));
  for (float& x : bias) x = std::round(x);
  Floats c(80 * 48, 1.0F);
  FtGemm g = Dense(codes_a.data(), codes_b.data(), c.data(), shape);
  g.dtype = FT_FP8, g.accumulate = 1, g.bias = bias.data();
  Run(g);
  Tensor expected = reference::Gemm(shape, ToDouble(a), ToDouble(b), ToDouble(bias));
  for (double& x : expected) x += 1.0;
  ExpectClose(c, expected, {0.0}, "c");
  EXPECT_EQ(FakeLibrary().ran.size(), 6U);
}

// Room for 1,024 of the depth of both operands: the whole result in three slices, the last of 16.
TEST_P(LibraryGemmTest, AddsUpAWeightGradientInSlicesOfItsDepth) {
  QueueOf(queue_.get()).turned_bytes = (48 + 32) * 1024;
  const reference::GemmShape shape{48, 32, 2064, true, false};
  Floats a = Random(48 * 2064, 1, 4.4F), b = Random(2064 * 32, 2, 4.4F);
  Codes codes_a, codes_b;
  for (float& x : a) codes_a.push_back(E5m2OfFloat(x = std::round(x)));
  for (float& x : b) codes_b.push_back(Fp8OfFloat(x = std::round(x)));
  Tensor expected = reference::Gemm(shape, ToDouble(a), ToDouble(b), {});
  for (const int accumulate : {0, 1}) {
    Floats c(48 * 32, accumulate != 0 ? 1.0F : kNan);
    FtGemm g = Dense(codes_a.data(), codes_b.data(), c.data(), shape);
    g.dtype = FT_E5M2, g.accumulate = accumulate;
    Run(g);
    ExpectClose(c, expected, {0.0}, "c");
    for (double& x : expected) x += 1.0;
  }
  EXPECT_EQ(FakeLibrary().ran.size(), 6U);
}

TEST_P(LibraryGemmTest, LeavesCodesOfOddSizesToItsOwnKernels) {
  const Codes a(15 * 16, Fp8OfFloat(1.0F)), b(16 * 16, Fp8OfFloat(2.0F));
  Floats c(15 * 16, kNan);
  FtGemm g = Dense(a.data(), b.data(), c.data(), {15, 16, 16, false, true});
  g.dtype = FT_FP8;
  Run(g);
  EXPECT_EQ(c, Floats(15 * 16, 32.0F));
  EXPECT_TRUE(FakeLibrary().ran.empty());
}

// ---- codes with scales of blocks

constexpr int kLines = 4, kSquares = 5;  // cublasLtMatmulMatrixScale_t
using Modes = std::vector<std::pair<int, int>>;

class BlocksTest : public LibraryGemmTest {
 protected:
  // Multiplies `shape` with scales laid out as a program has them; c starts as 1 and is added to.
  void Multiply(const reference::GemmShape& shape) {
    const auto [m, n, k, trans_a, trans_b] = shape;
    SCOPED_TRACE(testing::Message() << m << "x" << n << "x" << k << " " << trans_a << trans_b);
    const FtScaling of_a = trans_a ? FT_SCALE_COLUMNS : FT_SCALE_ROWS,
                    of_b = trans_a ? FT_SCALE_COLUMNS : FT_SCALE_TILES;
    const Scaled8 a(trans_a ? k : m, trans_a ? m : k, of_a, 1),
        b(trans_b ? n : k, trans_b ? k : n, of_b, 5);
    Floats c(static_cast<std::size_t>(m * n), 1.0F);
    FtGemm g = Dense(a.codes.data(), b.codes.data(), c.data(), shape);
    g.dtype = FT_FP8, g.a_scale = a.scales.data(), g.b_scale = b.scales.data();
    g.a_scaling = of_a, g.b_scaling = of_b, g.accumulate = 1;
    Run(g);
    Tensor expected = reference::Gemm(shape, ToDouble(a.numbers), ToDouble(b.numbers), {});
    for (double& x : expected) x += 1.0;
    ExpectClose(c, expected, {0.0}, "c");
  }
  const reference::GemmShape forward_{48, 272, 656, false, true},
      input_{48, 272, 656, false, false}, weight_{272, 48, 656, true, false};
};

// The library's a is our b. 656 is five blocks of 128 and a rest, so rows of squares are padded.
TEST_P(BlocksTest, AreTheLibrarysByLinesAndSquares) {
  Multiply(forward_);
  Multiply(input_);
  Multiply(weight_);
  Multiply({16, 128, 512, false, true});  // squares already in the library's layout
  EXPECT_EQ(FakeLibrary().scale_modes,
            (Modes{{kSquares, kLines}, {kSquares, kLines}, {kLines, kLines}, {kSquares, kLines}}));
}

// Room for 128 rows of each side, or for 256 where one side is transposed.
TEST_P(BlocksTest, ComeInPiecesOfWholeSquares) {
  QueueOf(queue_.get()).turned_bytes = 2 * 130 * 656;
  Multiply(input_);
  EXPECT_EQ(FakeLibrary().ran.size(), 2U);  // 256 and 16 columns
  Multiply({272, 144, 656, true, false});
  EXPECT_EQ(FakeLibrary().ran.size(), 2U + 3 * 2);
}

TEST_P(BlocksTest, ComeInSlicesOfTheDepthForAWeightGradient) {
  QueueOf(queue_.get()).turned_bytes = (48 + 32) * 1024;
  Multiply({48, 32, 2064, true, false});
  EXPECT_EQ(FakeLibrary().ran.size(), 3U);
}

TEST_P(BlocksTest, AreOwnWhereTheLibraryHasNone) {
  FakeLibrary().version = 120803;
  Multiply(forward_);
  FakeLibrary().version = 120900;
  QueueOf(queue_.get()).capability = 89;
  Multiply(forward_);
  QueueOf(queue_.get()).capability = 100;
  Multiply(weight_);
  EXPECT_TRUE(FakeLibrary().ran.empty());
  QueueOf(queue_.get()).capability = 90;
  Multiply(forward_);
  EXPECT_EQ(FakeLibrary().ran.size(), 1U);
}

// Pairs without library support: squares on both sides, one scale for all, and lines across the
// depth.
TEST_P(BlocksTest, AreOwnInOtherPairs) {
  const Floats ones(16, 1.0F);
  const Codes a(16 * 16, Fp8OfFloat(1.0F)), b(16 * 16, Fp8OfFloat(2.0F));
  for (const auto& [of_a, of_b] : {std::pair(FT_SCALE_TILES, FT_SCALE_TILES),
                                   {FT_SCALE_ROWS, FT_SCALE_TENSOR},
                                   {FT_SCALE_COLUMNS, FT_SCALE_ROWS}}) {
    Floats c(16 * 16, kNan);
    FtGemm g = Dense(a.data(), b.data(), c.data(), {16, 16, 16, false, true});
    g.dtype = FT_FP8, g.a_scale = g.b_scale = ones.data();
    g.a_scaling = of_a, g.b_scaling = of_b;
    Run(g);
    EXPECT_EQ(c, Floats(16 * 16, 32.0F));
  }
  EXPECT_TRUE(FakeLibrary().ran.empty());
}

// ---- which algorithm

class AlgorithmTest : public LibraryGemmTest {
 protected:
  const Floats a_ = Random(64, 1), b_ = Random(64, 2);
  Floats c_ = Floats(64, kNan);
  const FtGemm g_ = Dense(a_.data(), b_.data(), c_.data(), {8, 8, 8});
};

TEST_P(AlgorithmTest, IsTheLibrarysOwnUntilOneIsKept) {
  FtGemmAlgorithm found[8];
  std::int32_t count = 0;
  ASSERT_EQ(FindGemmAlgorithms(queue_.get(), &g_, found, 8, &count), FT_OK);
  ASSERT_EQ(count, 4);
  EXPECT_EQ(found[2].words[0], 2U);
  Run(g_);
  ASSERT_EQ(UseGemmAlgorithm(queue_.get(), &g_, &found[2]), FT_OK);
  Run(g_);
  FtGemm other = g_;
  other.m = 4;
  Run(other);
  EXPECT_EQ(FakeLibrary().ran, (std::vector<std::uint64_t>{0, 2, 0}));
}

// More shapes than the cache of heuristic choices holds.
TEST_P(AlgorithmTest, ThatIsKeptStaysThroughManyOtherShapes) {
  const FtGemmAlgorithm third{{3}};
  ASSERT_EQ(UseGemmAlgorithm(queue_.get(), &g_, &third), FT_OK);
  Floats wide(4096, 0.0F), out(4096);
  for (std::int64_t k = 1; k <= 2000; ++k)
    Run(Dense(wide.data(), wide.data(), out.data(), {1, 1, k}));
  FakeLibrary().ran.clear();
  Run(g_);
  EXPECT_EQ(FakeLibrary().ran, std::vector<std::uint64_t>{3});
}

TEST_P(AlgorithmTest, ThatTheLibraryRefusesIsNotUsed) {
  FakeLibrary().not_taken = {1};
  const FtGemmAlgorithm first{{1}}, unknown{{77}};
  for (const FtGemmAlgorithm& algorithm : {first, unknown}) {
    EXPECT_EQ(UseGemmAlgorithm(queue_.get(), &g_, &algorithm), FT_UNSUPPORTED);
    EXPECT_STREQ(api_.queue_error(queue_.get()),
                 "cuda gemm: cuBLASLt does not take the algorithm that was kept for m 8, n 8, k 8");
  }
  FakeLibrary().workspace_bytes = kWorkspaceBytes + 1;
  const FtGemmAlgorithm second{{2}};
  EXPECT_EQ(UseGemmAlgorithm(queue_.get(), &g_, &second), FT_UNSUPPORTED);
  Run(g_);
  EXPECT_EQ(FakeLibrary().ran, std::vector<std::uint64_t>{0});
}

TEST_P(AlgorithmTest, IsOfALibraryWithAVersion) {
  char name[64];
  ASSERT_EQ(NameGemmLibrary(name, sizeof name), FT_OK);
  EXPECT_STREQ(name, "cublasLt-130100");
}

// The kernels run with the library's products are tested in each order of threads.
#define FT_TEST_ORDERS(suite)                                                  \
  INSTANTIATE_TEST_SUITE_P(Variants, suite, testing::ValuesIn(CudaVariants()), \
                           [](const auto& i) { return Name(i.param); });       \
  GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(suite)
FT_TEST_ORDERS(LibraryGemmTest);
FT_TEST_ORDERS(EndsTest);
FT_TEST_ORDERS(BlocksTest);
FT_TEST_ORDERS(AlgorithmTest);

}  // namespace
}  // namespace foretrain::test

#else

TEST(LibraryGemmTest, NeedsTheHeaderOfCublasLt) {
  GTEST_SKIP()
      << "cublasLt.h was not found: kernels_tests runs this where a build has found the CUDA "
         "toolkit, with a GPU or without";
}

#endif
