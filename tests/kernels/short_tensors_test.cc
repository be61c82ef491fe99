// Entries on 16-bit tensors give the fp32 result of the same entry, rounded once.
#include <cmath>
#include <cstring>
#include <vector>

#include "base/numeric/number_formats.h"
#include "kernels/cpu/wide_copies.h"
#include "tests/kernels/reference/reference.h"
#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

using Codes = std::vector<std::uint16_t>;

Codes Shortened(FtDtype dtype, const Floats& x) {
  Codes codes(x.size());
  Narrow(dtype, x.data(), codes.data(), static_cast<std::int64_t>(x.size()));
  return codes;
}
Floats Longer(FtDtype dtype, const Codes& codes) {
  Floats x(codes.size());
  Widen(dtype, codes.data(), x.data(), static_cast<std::int64_t>(codes.size()));
  return x;
}

class ShortTensorsTest : public KernelTest {};

constexpr FtDtype kShort[] = {FT_BF16, FT_F16};

// c is a slice of wider rows, whose other columns stay unchanged. The second case adds to an fp32
// c. A GPU's library adds the k products and c in an order of its own in each format.
TEST_P(ShortTensorsTest, GemmReadsShortOperandsAndWritesWhatIsAsked) {
  constexpr std::int64_t m = 5, n = 7, k = 9, ldc = 11;
  for (const FtDtype dtype : kShort) {
    const Codes a = Shortened(dtype, Random(m * k, 1)), b = Shortened(dtype, Random(n * k, 2)),
                bias = Shortened(dtype, Random(n, 3)),
                before = Shortened(dtype, Random(m * ldc, 4));
    const Floats wide_a = Longer(dtype, a), wide_b = Longer(dtype, b),
                 wide_bias = Longer(dtype, bias);
    FtGemm g{};
    g.m = m, g.n = n, g.k = k, g.lda = k, g.ldb = k, g.ldc = ldc, g.trans_b = 1;
    Floats expected = Longer(dtype, before);
    g.a = wide_a.data(), g.b = wide_b.data(), g.bias = wide_bias.data(), g.c = expected.data();
    Run(api_.gemm, g);
    Codes actual = before;
    g.a = a.data(), g.b = b.data(), g.bias = bias.data(), g.c = actual.data();
    g.dtype = g.bias_dtype = g.c_dtype = dtype;
    Run(api_.gemm, g);
    EXPECT_EQ(actual, Shortened(dtype, expected));

    const Floats before_sum = Random(m * ldc, 5);
    Floats sum = before_sum, expected_sum = before_sum;
    g.accumulate = 1, g.bias = nullptr, g.c = sum.data(), g.c_dtype = FT_F32;
    Run(api_.gemm, g);
    g.a = wide_a.data(), g.b = wide_b.data(), g.c = expected_sum.data(), g.dtype = FT_F32;
    Run(api_.gemm, g);
    if (GetParam().cuda != CudaThreads::kGpu) {
      EXPECT_EQ(Bits(sum), Bits(expected_sum));
      continue;
    }
    const Tensor sizes = reference::Gemm({m, n, k, false, true}, Absolute(ToDouble(wide_a)),
                                         Absolute(ToDouble(wide_b)), {});
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const std::size_t row = i / ldc, col = i % ldc;
      const double size = col < n ? sizes[row * n + col] + std::abs(before_sum[i]) : 0.0;
      EXPECT_NEAR(sum[i], expected_sum[i], 2 * Roundings(k + 1) * size) << i;
    }
  }
}

// fp32 weights have fp32 biases. A library adds them in the result's format, own kernels in fp32:
// the bias and the sum are rounded once each.
TEST_P(ShortTensorsTest, ProductsAddFp32Biases) {
  constexpr std::int64_t m = 5, n = 16, k = 8;
  for (const FtDtype dtype : kShort) {
    const Codes a = Shortened(dtype, Random(m * k, 1)), b = Shortened(dtype, Random(n * k, 2));
    const Floats bias = Random(n, 3), wide_a = Longer(dtype, a), wide_b = Longer(dtype, b);
    Codes c(m * n);
    FtGemm g{};
    g.a = a.data(), g.b = b.data(), g.c = c.data(), g.bias = bias.data();
    g.m = m, g.n = n, g.k = k, g.lda = g.ldb = k, g.ldc = n, g.trans_b = 1;
    g.dtype = g.c_dtype = dtype, g.bias_dtype = FT_F32;
    Run(api_.gemm, g);
    const Tensor sums =
        reference::Gemm({m, n, k, false, true}, ToDouble(wide_a), ToDouble(wide_b), ToDouble(bias));
    const Floats rounded = Longer(dtype, c);
    for (std::size_t i = 0; i < rounded.size(); ++i) {
      const double size = std::abs(sums[i]) + std::abs(double{bias[i % n]});
      EXPECT_NEAR(rounded[i], sums[i], 0x1p-7 * size + Roundings(k + 1) * k) << i;
    }
  }
}

// More rows of one id than a kernel adds in one go. Sums of whole numbers are exact.
TEST_P(ShortTensorsTest, FrequentIdsAddAllTheirRows) {
  constexpr std::int64_t rows = 200, cols = 9;
  for (const FtDtype dtype : kShort) {
    const Ids ids(rows, 1);
    const Codes dy = Shortened(dtype, Floats(rows * cols, 3.0F));
    Floats table(2 * cols, 1.0F);
    FtEmbeddingBackward g{};
    g.ids = ids.data(), g.dy = dy.data(), g.table_grad = table.data(), g.rows = rows;
    g.cols = cols, g.vocab = 2, g.sequence = 1, g.accumulate_table = 1, g.dtype = dtype;
    Run(api_.embedding_backward, g);
    Floats expected(2 * cols, 1.0F);
    std::fill(expected.begin() + cols, expected.end(), 601.0F);
    EXPECT_EQ(table, expected);
  }
}

TEST_P(ShortTensorsTest, LossesReadShortLogitsAndWriteTheirGradient) {
  constexpr std::int64_t rows = 3, vocab = 40, ids = 37;
  const std::vector<std::int32_t> targets = {0, 36, -1};
  for (const FtDtype dtype : kShort) {
    Codes logits = Shortened(dtype, Random(rows * vocab, 1, 4.0F));
    Floats wide = Longer(dtype, logits), lse(rows), lse2(rows), loss(1), loss2(1);
    const auto forward = [&](void* x, FtDtype of, Floats& to, Floats& sum) {
      FtCrossEntropyForward g{};
      g.logits = x, g.targets = targets.data(), g.lse = to.data(), g.loss = sum.data();
      g.rows = rows, g.vocab = vocab, g.all_ids = ids, g.scale = 0.5F, g.dtype = of;
      Run(api_.cross_entropy_forward, g);
    };
    forward(wide.data(), FT_F32, lse, loss);
    forward(logits.data(), dtype, lse2, loss2);
    EXPECT_EQ(Bits(lse2), Bits(lse));
    EXPECT_EQ(Bits(loss2), Bits(loss));
    const auto backward = [&](void* x, FtDtype of) {
      FtCrossEntropyBackward g{};
      g.logits = x, g.targets = targets.data(), g.lse = lse.data();
      g.rows = rows, g.vocab = vocab, g.all_ids = ids, g.scale = 0.5F, g.dtype = of;
      Run(api_.cross_entropy_backward, g);
    };
    Codes at_once = logits;
    backward(wide.data(), FT_F32);
    backward(logits.data(), dtype);
    EXPECT_EQ(logits, Shortened(dtype, wide));
    FtCrossEntropy g{};
    g.logits = at_once.data(), g.targets = targets.data(), g.terms = lse2.data();
    g.loss = loss2.data(), g.rows = rows, g.vocab = vocab, g.all_ids = ids;
    g.scale = g.gradient_scale = 0.5F, g.dtype = dtype;
    Run(api_.cross_entropy, g);
    EXPECT_EQ(at_once, logits);
    EXPECT_EQ(Bits(loss2), Bits(loss));
  }
}

TEST_P(ShortTensorsTest, NormsReadShortRowsAndFp32Weights) {
  constexpr std::int64_t rows = 3, cols = 33;
  for (const FtDtype dtype : kShort) {
    const Codes x = Shortened(dtype, Random(rows * cols, 1));
    const Floats wide = Longer(dtype, x), weight = Random(cols, 2), bias = Random(cols, 3);
    Floats expected(rows * cols), mean(rows), rstd(rows), mean2(rows), rstd2(rows);
    Codes actual(rows * cols);
    Run(api_.norm_forward,
        FtNormForward{wide.data(), weight.data(), bias.data(), expected.data(), mean.data(),
                      rstd.data(), rows, cols, 1e-5F, 0, FT_F32, FT_F32});
    Run(api_.norm_forward,
        FtNormForward{x.data(), weight.data(), bias.data(), actual.data(), mean2.data(),
                      rstd2.data(), rows, cols, 1e-5F, 0, dtype, FT_F32});
    EXPECT_EQ(actual, Shortened(dtype, expected));
    EXPECT_EQ(Bits(mean), Bits(mean2));
    EXPECT_EQ(Bits(rstd), Bits(rstd2));
  }
}

// The norm of a fused sum reads the sum as stored, after rounding.
TEST_P(ShortTensorsTest, AFusedSumAndNormAreTheTwoKernels) {
  constexpr std::int64_t rows = 4, cols = 20;
  const FtDtype d = FT_BF16;
  const Codes a = Shortened(d, Random(rows * cols, 1)), b = Shortened(d, Random(rows * cols, 2)),
              weight = Shortened(d, Random(cols, 3));
  Codes sum(rows * cols), y(rows * cols), fused_sum(rows * cols), fused_y(rows * cols);
  Floats rstd(rows), fused_rstd(rows);
  Run(api_.add, FtAdd{a.data(), b.data(), nullptr, sum.data(), rows, cols, d, d});
  Run(api_.norm_forward, FtNormForward{sum.data(), weight.data(), nullptr, y.data(), nullptr,
                                       rstd.data(), rows, cols, 1e-5F, 1, d, d});
  Run(api_.add_norm_forward,
      FtAddNormForward{a.data(), b.data(), nullptr, weight.data(), nullptr, fused_sum.data(),
                       fused_y.data(), nullptr, fused_rstd.data(), rows, cols, 1e-5F, 1, d, d});
  EXPECT_EQ(sum, fused_sum);
  EXPECT_EQ(y, fused_y);
  EXPECT_EQ(Bits(rstd), Bits(fused_rstd));
}

// q, k and v are slices of one tensor, and so are their gradients.
TEST_P(ShortTensorsTest, AttentionReadsAndWritesPackedRows) {
  constexpr std::int64_t rows = 6, q = 8, kv = 4, stride = q + 2 * kv;
  const FtDtype d = FT_BF16;
  const Codes qkv = Shortened(d, Random(rows * stride, 1)),
              dout = Shortened(d, Random(rows * q, 2));
  const Floats wide = Longer(d, qkv), wide_dout = Longer(d, dout);
  Floats out(rows * q), lse(rows * 2), dqkv(rows * stride);
  Codes short_out(rows * q), short_dqkv(rows * stride);
  Floats short_lse(rows * 2);
  FtAttentionForward f{};
  f.batch = 2, f.sequence = 3, f.row_stride = stride, f.heads = 2, f.kv_heads = 1, f.head_dim = 4;
  f.q = wide.data(), f.k = wide.data() + q, f.v = wide.data() + q + kv;
  f.out = out.data(), f.lse = lse.data();
  Run(api_.attention_forward, f);
  f.q = qkv.data(), f.k = qkv.data() + q, f.v = qkv.data() + q + kv;
  f.out = short_out.data(), f.lse = short_lse.data(), f.dtype = d;
  Run(api_.attention_forward, f);
  EXPECT_EQ(short_out, Shortened(d, out));
  EXPECT_EQ(Bits(short_lse), Bits(lse));

  const Floats stored = Longer(d, short_out);
  FtAttentionBackward g{};
  g.batch = 2, g.sequence = 3, g.row_stride = stride, g.heads = 2, g.kv_heads = 1, g.head_dim = 4;
  g.q = wide.data(), g.k = wide.data() + q, g.v = wide.data() + q + kv;
  g.out = stored.data(), g.lse = lse.data(), g.dout = wide_dout.data();
  g.dq = dqkv.data(), g.dk = dqkv.data() + q, g.dv = dqkv.data() + q + kv;
  Run(api_.attention_backward, g);
  g.q = qkv.data(), g.k = qkv.data() + q, g.v = qkv.data() + q + kv;
  g.out = short_out.data(), g.dout = dout.data(), g.dtype = d;
  g.dq = short_dqkv.data(), g.dk = short_dqkv.data() + q, g.dv = short_dqkv.data() + q + kv;
  Run(api_.attention_backward, g);
  EXPECT_EQ(short_dqkv, Shortened(d, dqkv));
}

// The master moves by the gradient converted to fp32; the weights are the rounded master. A skipped
// step leaves both unchanged.
TEST_P(ShortTensorsTest, UpdatesWriteTheMasterAndItsShortCopy) {
  constexpr std::int64_t n = 37;
  for (const FtDtype dtype : kShort) {
    const Codes grad = Shortened(dtype, Random(n, 1));
    const Floats wide = Longer(dtype, grad), start = Random(n, 2);
    Floats expected = start, param = start, m1(n), m2(n), n1(n), n2(n);
    Codes weights = Shortened(dtype, start);
    FtAdamW g{};
    g.elements = n, g.step = 1, g.lr = 0.1F, g.beta1 = 0.9F, g.beta2 = 0.95F, g.epsilon = 1e-8F;
    g.param = expected.data(), g.grad = wide.data(), g.moment1 = m1.data(), g.moment2 = m2.data();
    Run(api_.adamw, g);
    g.param = param.data(), g.grad = grad.data(), g.moment1 = n1.data(), g.moment2 = n2.data();
    g.grad_dtype = g.weights_dtype = dtype, g.weights = weights.data();
    Run(api_.adamw, g);
    EXPECT_EQ(Bits(param), Bits(expected));
    EXPECT_EQ(weights, Shortened(dtype, param));
    const float one = 1;
    g.not_finite = &one, g.step = 2;
    Run(api_.adamw, g);
    EXPECT_EQ(Bits(param), Bits(expected));
    EXPECT_EQ(weights, Shortened(dtype, param));
  }
}

// Weights without a master equal the fp32 update rounded once, stochastically.
TEST_P(ShortTensorsTest, UpdatesRoundWeightsWithoutAMasterStochastically) {
  constexpr std::int64_t n = 301;
  const Codes start = Shortened(FT_BF16, Random(n, 1));
  const Floats grad = Random(n, 2);
  for (const FtDtype moments : {FT_F32, FT_BF16}) {
    for (const std::uint32_t noise : {1U, 0xdeadbeefU}) {
      Floats expected = Longer(FT_BF16, start), m1(n), m2(n), n1(n), n2(n);
      Codes param = start;
      FtAdamW g{};
      g.elements = n, g.step = 1, g.lr = 1e-3F, g.beta1 = 0.9F, g.beta2 = 0.95F, g.epsilon = 1e-8F;
      g.grad = grad.data(), g.moments = moments;
      g.param = expected.data(), g.moment1 = m1.data(), g.moment2 = m2.data();
      Run(api_.adamw, g);
      g.param = param.data(), g.moment1 = n1.data(), g.moment2 = n2.data();
      g.dtype = FT_BF16, g.noise = noise;
      Run(api_.adamw, g);
      for (float& x : expected) x = StochasticBf16(x, noise);
      EXPECT_EQ(Bits(Longer(FT_BF16, param)), Bits(expected));
    }
  }
  Floats expected = Longer(FT_BF16, start);
  Codes param = start;
  FtSgd g{};
  g.elements = n, g.lr = 1e-3F, g.grad = grad.data();
  g.param = expected.data();
  Run(api_.sgd, g);
  g.param = param.data(), g.dtype = FT_BF16, g.noise = 3;
  Run(api_.sgd, g);
  for (float& x : expected) x = StochasticBf16(x, 3);
  EXPECT_EQ(Bits(Longer(FT_BF16, param)), Bits(expected));
}

// 1 + 2^-8 + 2^-8 in bf16: 1 + 2^-7 if rounded once, 1 if rounded after each addition.
TEST_P(ShortTensorsTest, SumsOverRanksAreRoundedOnce) {
  const Codes one = Shortened(FT_BF16, {1.0F}), small = Shortened(FT_BF16, {0.00390625F});
  const void* const sources[] = {one.data(), small.data(), small.data()};
  Codes out(1);
  Run(api_.sum_ranks, FtSumRanks{sources, out.data(), 1, 3, 0, FT_BF16});
  EXPECT_EQ(Longer(FT_BF16, out)[0], 1.0078125F);
}

TEST_P(ShortTensorsTest, CastsGoBetweenAnyTwoFormats) {
  const Floats x = Random(21, 1);
  const Codes bf16 = Shortened(FT_BF16, x);
  Codes cast(21);
  Run(api_.quantize, FtQuantize{x.data(), cast.data(), 21, 1, FT_F16, FT_F32});
  EXPECT_EQ(cast, Shortened(FT_F16, x));
  Run(api_.quantize, FtQuantize{bf16.data(), cast.data(), 21, 1, FT_F16, FT_BF16});
  EXPECT_EQ(cast, Shortened(FT_F16, Longer(FT_BF16, bf16)));
  Floats back(21);
  Run(api_.dequantize, FtQuantize{bf16.data(), back.data(), 21, 1, FT_BF16, FT_F32});
  EXPECT_EQ(Bits(back), Bits(Longer(FT_BF16, bf16)));
}

FT_TEST_ALL_VARIANTS(ShortTensorsTest);

}  // namespace
}  // namespace foretrain::test
