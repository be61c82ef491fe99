#include "tests/kernels/attention/attention_bounds.h"

#include <cmath>
#include <cstddef>

namespace foretrain::test {
namespace {

std::size_t Index(std::int64_t i) { return static_cast<std::size_t>(i); }

// A dot product and the sum of the absolute values of its terms.
struct Sum {
  double value = 0.0;
  double size = 0.0;
};
Sum Multiply(const Tensor& x, std::size_t at_x, const Tensor& y, std::size_t at_y, std::int64_t n) {
  Sum sum;
  for (std::size_t c = 0; c < Index(n); ++c) {
    sum.value += x[at_x + c] * y[at_y + c];
    sum.size += std::abs(x[at_x + c] * y[at_y + c]);
  }
  return sum;
}

void AddSizes(double factor, const Tensor& x, std::size_t at_x, std::int64_t n, Tensor& y,
              std::size_t at_y) {
  for (std::size_t c = 0; c < Index(n); ++c) {
    y[at_y + c] += factor * std::abs(x[at_x + c]);
  }
}

class Bounder {
 public:
  Bounder(const reference::AttentionShape& s, const Tensor& q, const Tensor& k, const Tensor& v,
          const Tensor& dout, const Rounding& rounding)
      : s_(s),
        rounding_(rounding),
        q_(q),
        k_(k),
        v_(v),
        dout_(dout),
        forward_(reference::AttentionForward(s, q, k, v)),
        bounds_{Tensor(q.size(), 1e-36), Tensor(forward_.lse.size(), 1e-36),
                Tensor(q.size(), 1e-36), Tensor(k.size(), 1e-36), Tensor(v.size(), 1e-36)} {
    bounds_.out.assign(forward_.out.size(), 1e-36);
  }

  AttentionBounds Run() {
    for (std::int64_t row = 0; row < s_.batch * s_.sequence; ++row) {
      for (std::int64_t head = 0; head < s_.heads; ++head) {
        Query(row, head);
      }
    }
    return bounds_;
  }

 private:
  // Adds the bounds of one query over all its keys.
  void Query(std::int64_t row, std::int64_t head) {
    const std::int64_t d = s_.head_dim, values = s_.ValueDim();
    const std::size_t query = Index((row * s_.heads + head) * d);
    const std::size_t out = Index((row * s_.heads + head) * values);
    const double lse = forward_.lse[Index(row * s_.heads + head)];
    const std::int64_t start = row / s_.sequence * s_.sequence;
    const std::int64_t first = start + s_.FirstKey(row - start);
    const std::int64_t keys = row - first + 1;
    const double scale = 1.0 / std::sqrt(static_cast<double>(d));
    Tensor p, error, slope;
    double lse_error = Roundings(keys + 8) + 2.0 * kUnit * std::abs(lse);
    for (std::int64_t j = first; j <= row; ++j) {
      const Sum score = Multiply(q_, query, k_, Key(j, head), d);
      const double bent = s_.Bent(scale * score.value, head, row - j);
      // Error of the exponential within tanh, and of the product of slope and distance.
      const double bending =
          bent == scale * score.value
              ? 0.0
              : 16.0 * kUnit * (s_.softcap + std::abs(bent) + scale * std::abs(score.value));
      error.push_back(Roundings(d + 4) * scale * score.size + bending +
                      4.0 * kUnit * (std::abs(bent) + std::abs(lse)));
      p.push_back(std::exp(bent - lse));
      slope.push_back(s_.BentSlope(scale * score.value));
      lse_error += p.back() * error.back();
    }
    bounds_.lse[Index(row * s_.heads + head)] += lse_error;
    const Sum delta = Multiply(dout_, out, forward_.out, out, values);
    const std::int64_t queries = s_.sequence * (s_.heads / s_.kv_heads);
    for (std::int64_t j = first; j <= row; ++j) {
      const std::size_t key = Key(j, head);
      const double probability = p[Index(j - first)];
      const double relative = error[Index(j - first)] + 8.0 * kUnit;
      const std::size_t value = Value(j, head);
      AddSizes(Stored(probability, relative + lse_error + Roundings(keys + 8)), v_, value, values,
               bounds_.out, out);
      AddSizes(Stored(probability, relative + Roundings(queries + 4)), dout_, out, values,
               bounds_.v, value);
      const Sum dp = Multiply(dout_, out, v_, value, values);
      const double passed = scale * slope[Index(j - first)];
      const double through = std::abs(dp.value - delta.value) * probability;
      const double ds = passed * through;
      // 1 - tanh^2 has the error of the score times tanh's slope, at most 2 / cap, and that of its
      // parts.
      const double cap_error =
          s_.softcap > 0
              ? scale * through * (2.0 * error[Index(j - first)] / s_.softcap + 16.0 * kUnit)
              : 0.0;
      const double ds_error = ds * (relative + 6.0 * kUnit) + cap_error +
                              passed * probability * Roundings(values + 2) * (dp.size + delta.size);
      AddSizes(ds_error + Stored(ds, Roundings(keys + 4)), k_, key, d, bounds_.q, query);
      AddSizes(ds_error + Stored(ds, Roundings(queries + 4)), q_, query, d, bounds_.k, key);
    }
  }

  // Absolute error of a number of this size after rounding to the stored format.
  double Stored(double size, double relative) const {
    return size * (relative + rounding_.unit) + rounding_.floor;
  }

  std::size_t Key(std::int64_t row, std::int64_t head) const {
    return Index((row * s_.kv_heads + head / (s_.heads / s_.kv_heads)) * s_.head_dim);
  }

  std::size_t Value(std::int64_t row, std::int64_t head) const {
    return Index((row * s_.kv_heads + head / (s_.heads / s_.kv_heads)) * s_.ValueDim());
  }

  const reference::AttentionShape& s_;
  const Rounding rounding_;
  const Tensor& q_;
  const Tensor& k_;
  const Tensor& v_;
  const Tensor& dout_;
  reference::AttentionOutputs forward_;
  AttentionBounds bounds_;
};

}  // namespace

AttentionBounds BoundAttention(const reference::AttentionShape& shape, const Tensor& q,
                               const Tensor& k, const Tensor& v, const Tensor& dout,
                               const Rounding& rounding) {
  return Bounder(shape, q, k, v, dout, rounding).Run();
}

}  // namespace foretrain::test
