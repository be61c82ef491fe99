#include <cmath>
#include <limits>
#include <string>

#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kEpsilon = 1e-5F;

struct Heads {
  std::int64_t rows, heads, kv_heads, dim;
  bool whole = false;  // one norm over all heads of a kind
  std::int64_t All() const { return heads + kv_heads; }
  std::int64_t Width() const { return All() * dim; }
  // Norms of a row, and the numbers of one among `count` heads.
  std::int64_t Norms() const { return whole ? 2 : All(); }
  std::int64_t NormOf(std::int64_t count) const { return whole ? count * dim : dim; }
  std::int64_t Stride() const { return Width() + kv_heads * dim; }  // values follow
  std::string Name() const {
    return std::to_string(rows) + " rows of " + std::to_string(heads) + "+" +
           std::to_string(kv_heads) + " heads of " + std::to_string(dim) + (whole ? ", whole" : "");
  }
};

// Heads of one kind as rows of a tensor, one for each norm, taken from rows of [q | k].
Tensor HeadsOf(const Heads& s, const Floats& packed, std::int64_t first, std::int64_t count) {
  Tensor out;
  for (std::int64_t row = 0; row < s.rows; ++row) {
    for (std::int64_t i = 0; i < count * s.dim; ++i) {
      out.push_back(double{packed[static_cast<std::size_t>(row * s.Width() + first * s.dim + i)]});
    }
  }
  return out;
}

class HeadNormTest : public KernelTest {
 protected:
  // Puts rows of [q | k] into rows of [q | k | v], with NaN in the values.
  static Floats InRows(const Heads& s, const Floats& qk) {
    Floats rows(static_cast<std::size_t>(s.rows * s.Stride()), kNan);
    for (std::size_t i = 0; i < qk.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      rows[static_cast<std::size_t>(at / s.Width() * s.Stride() + at % s.Width())] = qk[i];
    }
    return rows;
  }
  static Floats FromRows(const Heads& s, const Floats& rows) {
    Floats qk;
    for (std::int64_t i = 0; i < s.rows * s.Stride(); ++i) {
      const float v = rows[static_cast<std::size_t>(i)];
      if (i % s.Stride() < s.Width()) {
        qk.push_back(v);
      } else {
        EXPECT_TRUE(std::isnan(v)) << i;
      }
    }
    return qk;
  }
};

// Bound for a row of `dim` numbers of size at most 1. The sum of squares has an error of R(dim),
// rstd half of that and 3 units, y as much and 2 units. rstd is at most 1 / sqrt(epsilon), and its
// product with x at most sqrt(dim).
double Bound(std::int64_t dim) {
  return (Roundings(dim + 2) + 6.0 * kUnit) * 2.0 * std::sqrt(static_cast<double>(dim));
}

TEST_P(HeadNormTest, EqualsTheNormOfEachHead) {
  for (const Heads& s :
       {Heads{3, 4, 2, 8}, Heads{2, 3, 1, 33}, Heads{1, 1, 1, 130}, Heads{5, 2, 2, 2},
        Heads{3, 4, 2, 8, true}, Heads{2, 3, 1, 33, true}, Heads{4, 1, 1, 6, true}}) {
    SCOPED_TRACE(s.Name());
    const Floats qk = Random(s.rows * s.Width(), 1), q_weight = Random(s.NormOf(s.heads), 2),
                 k_weight = Random(s.NormOf(s.kv_heads), 3), dy = Random(s.rows * s.Width(), 4);
    Floats rows = InRows(s, qk), kept(qk.size(), kNan),
           rstd(static_cast<std::size_t>(s.rows * s.Norms()), kNan);
    const auto heads = static_cast<std::int32_t>(s.heads),
               kv_heads = static_cast<std::int32_t>(s.kv_heads),
               dim = static_cast<std::int32_t>(s.dim), whole = s.whole ? 1 : 0;
    Run(api_.head_norm_forward,
        FtHeadNormForward{rows.data(), q_weight.data(), k_weight.data(), kept.data(), rstd.data(),
                          s.rows, s.Stride(), heads, kv_heads, dim, whole, kEpsilon, FT_F32});
    EXPECT_EQ(kept, qk);
    const Floats y = FromRows(s, rows);
    Floats grad = InRows(s, dy), kept_grad(qk.size(), kNan);
    Run(api_.head_norm_backward_input,
        FtHeadNormBackwardInput{grad.data(), kept.data(), rstd.data(), q_weight.data(),
                                k_weight.data(), kept_grad.data(), s.rows, s.Stride(), heads,
                                kv_heads, dim, whole, FT_F32});
    EXPECT_EQ(kept_grad, dy);
    const Floats dx = FromRows(s, grad);
    Floats d_q(q_weight.size(), 0.5F), d_k(k_weight.size(), kNan);
    const auto weight_grads = [&](Floats& q, Floats& k, int accumulate) {
      Run(api_.head_norm_backward_weight,
          FtHeadNormBackwardWeight{kept_grad.data(), kept.data(), rstd.data(), q.data(), k.data(),
                                   s.rows, heads, kv_heads, dim, whole, accumulate, FT_F32});
    };
    Floats unused_q = d_q, unused_k = d_k;
    weight_grads(unused_q, d_k, 0);
    weight_grads(d_q, unused_k, 1);
    const auto check = [&](std::int64_t first, std::int64_t count, const Floats& weight,
                           const Floats& d_weight, double before, const std::string& what) {
      const std::int64_t cols = s.NormOf(count), norms = s.rows * count * s.dim / cols;
      const reference::NormShape shape{.cols = cols, .epsilon = double{kEpsilon}, .rms = true};
      const Tensor x = HeadsOf(s, qk, first, count), g = HeadsOf(s, dy, first, count);
      const auto forward = reference::NormForward(shape, x, ToDouble(weight), {});
      const auto backward =
          reference::NormBackward(shape, g, x, ToDouble(weight), forward.mean, forward.rstd);
      double largest = 0.0;
      for (const double r : forward.rstd) largest = std::max(largest, r);
      const auto floats = [&](const Floats& of) {
        const Tensor t = HeadsOf(s, of, first, count);
        return Floats(t.begin(), t.end());
      };
      ExpectClose(floats(y), forward.y, {Bound(cols)}, what + " y");
      ExpectClose(floats(dx), backward.x, {Bound(cols) * 4.0 * largest}, what + " dx");
      Tensor expected = backward.weight;
      for (double& v : expected) v += before;
      const auto terms = static_cast<double>(norms);
      ExpectClose(d_weight, expected, {terms * Bound(cols) + Roundings(norms) * terms},
                  what + " weight");
    };
    check(0, s.heads, q_weight, d_q, 0.5, "q");
    check(s.heads, s.kv_heads, k_weight, d_k, 0.0, "k");
  }
}

TEST_P(HeadNormTest, KeepsNoGradientWhereNoneIsAskedFor) {
  const Heads s{2, 1, 1, 4};
  const Floats x = Random(16, 1), weight = Random(4, 2), rstd(4, 1.0F);
  Floats grad = InRows(s, Random(16, 3)), again = grad, kept(16, kNan);
  const auto run = [&](Floats& data, float* to) {
    Run(api_.head_norm_backward_input,
        FtHeadNormBackwardInput{data.data(), x.data(), rstd.data(), weight.data(), weight.data(),
                                to, s.rows, s.Stride(), 1, 1, 4, 0, FT_F32});
  };
  run(grad, nullptr);
  run(again, kept.data());
  EXPECT_EQ(Bits(grad), Bits(again));
}

// L2 norms of q and k (Llama 4).
TEST_P(HeadNormTest, HasWeightsOfOneWhereNoneAreGiven) {
  const Heads s{3, 4, 2, 10};
  const Floats qk = Random(s.rows * s.Width(), 1), dy = Random(s.rows * s.Width(), 2);
  const Floats ones(10, 1.0F);
  const auto run = [&](const float* weight, Floats& y, Floats& dx) {
    Floats kept(qk.size(), kNan), rstd(static_cast<std::size_t>(s.rows * s.Norms()), kNan);
    y = InRows(s, qk), dx = InRows(s, dy);
    Run(api_.head_norm_forward,
        FtHeadNormForward{y.data(), weight, weight, kept.data(), rstd.data(), s.rows, s.Stride(), 4,
                          2, 10, 0, kEpsilon, FT_F32});
    Run(api_.head_norm_backward_input,
        FtHeadNormBackwardInput{dx.data(), kept.data(), rstd.data(), weight, weight, nullptr,
                                s.rows, s.Stride(), 4, 2, 10, 0, FT_F32});
  };
  Floats y, dx, expected_y, expected_dx;
  run(nullptr, y, dx);
  run(ones.data(), expected_y, expected_dx);
  // A product with 1 may be fused with a sum, which rounds once less.
  ExpectClose(FromRows(s, y), ToDouble(FromRows(s, expected_y)), {Bound(10)}, "y");
  ExpectClose(FromRows(s, dx), ToDouble(FromRows(s, expected_dx)), {4.0 * Bound(10)}, "dx");
}

FT_TEST_ALL_VARIANTS(HeadNormTest);

}  // namespace
}  // namespace foretrain::test
