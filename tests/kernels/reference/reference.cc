#include "tests/kernels/reference/reference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace foretrain::reference {
namespace {

// Converts a size or index; sizes here are small and not negative.
std::size_t Index(std::int64_t i) { return static_cast<std::size_t>(i); }
std::int64_t Rows(const Tensor& x, std::int64_t cols) {
  return static_cast<std::int64_t>(x.size()) / cols;
}
Tensor Zeros(std::int64_t elements) { return Tensor(Index(elements), 0.0); }

double Sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

bool IsTarget(std::int32_t target, std::int64_t vocab) { return target >= 0 && target < vocab; }

}  // namespace

// The transposed operand is read by swapping the roles of its indices; nothing is copied.
Tensor Gemm(const GemmShape& s, const Tensor& a, const Tensor& b, const Tensor& bias) {
  Tensor c = Zeros(s.m * s.n);
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) {
      double sum = 0.0;
      for (std::int64_t k = 0; k < s.k; ++k) {
        sum += a[Index(s.trans_a ? k * s.m + i : i * s.k + k)] *
               b[Index(s.trans_b ? j * s.k + k : k * s.n + j)];
      }
      c[Index(i * s.n + j)] = sum + (bias.empty() ? 0.0 : bias[Index(j)]);
    }
  }
  return c;
}

Tensor BiasGrad(std::int64_t cols, const Tensor& dy) {
  Tensor grad = Zeros(cols);
  for (std::size_t i = 0; i < dy.size(); ++i) {
    grad[i % Index(cols)] += dy[i];
  }
  return grad;
}

Tensor EmbeddingForward(const EmbeddingShape& s, const std::vector<std::int32_t>& ids,
                        const Tensor& table, const Tensor& positions) {
  Tensor out;
  for (std::size_t row = 0; row < ids.size(); ++row) {
    for (std::int64_t c = 0; c < s.cols; ++c) {
      const std::int64_t position = static_cast<std::int64_t>(row) % s.sequence;
      out.push_back(table[Index(ids[row] * s.cols + c)] +
                    (positions.empty() ? 0.0 : positions[Index(position * s.cols + c)]));
    }
  }
  return out;
}

EmbeddingGrads EmbeddingBackward(const EmbeddingShape& s, const std::vector<std::int32_t>& ids,
                                 const Tensor& dy) {
  EmbeddingGrads grads{Zeros(s.vocab * s.cols), Zeros(s.sequence * s.cols)};
  for (std::size_t row = 0; row < ids.size(); ++row) {
    for (std::int64_t c = 0; c < s.cols; ++c) {
      const std::int64_t position = static_cast<std::int64_t>(row) % s.sequence;
      const double d = dy[row * Index(s.cols) + Index(c)];
      grads.table[Index(ids[row] * s.cols + c)] += d;
      grads.positions[Index(position * s.cols + c)] += d;
    }
  }
  return grads;
}

// Two passes: first the mean, then the mean squared deviation. This avoids the cancellation of
// E[x^2] - E[x]^2. For RMSNorm the mean stays 0, so the same code gives the mean square.
NormOutputs NormForward(const NormShape& s, const Tensor& x, const Tensor& weight,
                        const Tensor& bias) {
  NormOutputs outputs;
  const auto cols = static_cast<double>(s.cols);
  for (std::int64_t row = 0; row < Rows(x, s.cols); ++row) {
    double mean = 0.0;
    for (std::int64_t c = 0; c < s.cols && !s.rms; ++c) {
      mean += x[Index(row * s.cols + c)] / cols;
    }
    double variance = 0.0;
    for (std::int64_t c = 0; c < s.cols; ++c) {
      const double deviation = x[Index(row * s.cols + c)] - mean;
      variance += deviation * deviation / cols;
    }
    const double rstd = 1.0 / std::sqrt(variance + s.epsilon);
    outputs.mean.push_back(mean);
    outputs.rstd.push_back(rstd);
    for (std::int64_t c = 0; c < s.cols; ++c) {
      const double normal = (x[Index(row * s.cols + c)] - mean) * rstd;
      outputs.y.push_back(normal * weight[Index(c)] + (s.rms ? 0.0 : bias[Index(c)]));
    }
  }
  return outputs;
}

// dx = rstd * (a - mean(a) - xhat * mean(a * xhat)), with a = dy * weight and xhat = (x - mean) *
// rstd. RMSNorm has no mean(a) term, because no mean is subtracted from x.
NormGrads NormBackward(const NormShape& s, const Tensor& dy, const Tensor& x, const Tensor& weight,
                       const Tensor& mean, const Tensor& rstd) {
  NormGrads grads{Zeros(static_cast<std::int64_t>(x.size())), Zeros(s.cols),
                  s.rms ? Tensor{} : Zeros(s.cols)};
  const auto cols = static_cast<double>(s.cols);
  for (std::int64_t row = 0; row < Rows(x, s.cols); ++row) {
    const double center = s.rms ? 0.0 : mean[Index(row)];
    const double scale = rstd[Index(row)];
    const auto normal = [&](std::int64_t c) {
      return (x[Index(row * s.cols + c)] - center) * scale;
    };
    double mean_a = 0.0;   // mean of a = dy * weight
    double mean_ax = 0.0;  // mean of a * normal(x)
    for (std::int64_t c = 0; c < s.cols; ++c) {
      const double d = dy[Index(row * s.cols + c)];
      mean_a += s.rms ? 0.0 : d * weight[Index(c)] / cols;
      mean_ax += d * weight[Index(c)] * normal(c) / cols;
      grads.weight[Index(c)] += d * normal(c);
      if (!s.rms) {
        grads.bias[Index(c)] += d;
      }
    }
    for (std::int64_t c = 0; c < s.cols; ++c) {
      const double a = dy[Index(row * s.cols + c)] * weight[Index(c)];
      grads.x[Index(row * s.cols + c)] = scale * (a - mean_a - normal(c) * mean_ax);
    }
  }
  return grads;
}

// Pair i consists of elements i and i + head_dim / 2 of a head, as in Llama. The inverse negates
// the angle.
Tensor Rope(const RopeShape& s, const Tensor& x) {
  Tensor y = x;
  const std::int64_t half = s.head_dim / 2;
  for (std::int64_t row = 0; row < Rows(x, s.heads * s.head_dim); ++row) {
    for (std::int64_t head = 0; head < s.heads; ++head) {
      for (std::int64_t i = 0; i < half; ++i) {
        const double power = -2.0 * static_cast<double>(i) / static_cast<double>(s.head_dim);
        const double frequency =
            s.frequencies.empty() ? std::pow(s.theta, power) : s.frequencies[Index(i)];
        const double angle =
            static_cast<double>(row % s.sequence) * frequency * (s.inverse ? -1.0 : 1.0);
        const std::size_t first = Index((row * s.heads + head) * s.head_dim + i);
        const std::size_t second = first + Index(half);
        y[first] = s.magnitude * (x[first] * std::cos(angle) - x[second] * std::sin(angle));
        y[second] = s.magnitude * (x[second] * std::cos(angle) + x[first] * std::sin(angle));
      }
    }
  }
  return y;
}

namespace {

// ALiBi slope of `head` (Press et al. 2022, s. 3). For a power of two of heads, slopes are a
// geometric series that starts at its ratio. Other counts take the series of the next lower power
// of two, then every second slope of the next higher one.
double Slope(std::int64_t heads, std::int64_t head) {
  std::int64_t below = 1;
  while (2 * below <= heads) below *= 2;
  const bool first = head < below;
  const double ratio = std::pow(2.0, -8.0 / static_cast<double>(first ? below : 2 * below));
  return std::pow(ratio, static_cast<double>(first ? head + 1 : 2 * (head - below) + 1));
}

// Offsets of the vectors of one query and one key in the dense tensors.
struct AttentionPlaces {
  const AttentionShape& s;

  std::size_t Query(std::int64_t b, std::int64_t head, std::int64_t i) const {
    return Index(((b * s.sequence + i) * s.heads + head) * s.head_dim);
  }
  std::size_t Key(std::int64_t b, std::int64_t head, std::int64_t j) const {
    const std::int64_t kv_head = head / (s.heads / s.kv_heads);
    return Index(((b * s.sequence + j) * s.kv_heads + kv_head) * s.head_dim);
  }
  std::size_t Out(std::int64_t b, std::int64_t head, std::int64_t i) const {
    return Index(((b * s.sequence + i) * s.heads + head) * s.ValueDim());
  }
  std::size_t Value(std::int64_t b, std::int64_t head, std::int64_t j) const {
    const std::int64_t kv_head = head / (s.heads / s.kv_heads);
    return Index(((b * s.sequence + j) * s.kv_heads + kv_head) * s.ValueDim());
  }
  std::size_t Lse(std::int64_t b, std::int64_t head, std::int64_t i) const {
    return Index((b * s.sequence + i) * s.heads + head);
  }
};

double Dot(const Tensor& x, std::size_t at_x, const Tensor& y, std::size_t at_y, std::int64_t n) {
  double sum = 0.0;
  for (std::size_t c = 0; c < Index(n); ++c) {
    sum += x[at_x + c] * y[at_y + c];
  }
  return sum;
}

void AddScaled(double factor, const Tensor& x, std::size_t at_x, std::int64_t n, Tensor& y,
               std::size_t at_y) {
  for (std::size_t c = 0; c < Index(n); ++c) {
    y[at_y + c] += factor * x[at_x + c];
  }
}

// Calls visit(batch, head, query) for every query.
template <class Visit>
void ForEachQuery(const AttentionShape& s, const Visit& visit) {
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t head = 0; head < s.heads; ++head) {
      for (std::int64_t i = 0; i < s.sequence; ++i) {
        visit(b, head, i);
      }
    }
  }
}

}  // namespace

// The soft cap is applied before the ALiBi bias.
double AttentionShape::Bent(double score, std::int64_t head, std::int64_t distance) const {
  if (softcap > 0) score = softcap * std::tanh(score / softcap);
  if (alibi_heads == 0) return score;
  return score - Slope(alibi_heads, first_head + head) * static_cast<double>(distance);
}

double AttentionShape::BentSlope(double score) const {
  if (softcap == 0) return 1.0;
  const double tanh = std::tanh(score / softcap);
  return 1.0 - tanh * tanh;
}

// Softmax with the maximum subtracted. Only the scores of one query exist at a time; lse = max +
// log(sum) is what the backward pass needs.
AttentionOutputs AttentionForward(const AttentionShape& s, const Tensor& q, const Tensor& k,
                                  const Tensor& v) {
  const AttentionPlaces at{s};
  const double scale = 1.0 / std::sqrt(static_cast<double>(s.head_dim));
  AttentionOutputs outputs{Zeros(s.batch * s.sequence * s.heads * s.ValueDim()),
                           Zeros(s.batch * s.sequence * s.heads)};
  ForEachQuery(s, [&](std::int64_t b, std::int64_t head, std::int64_t i) {
    Tensor scores;
    for (std::int64_t j = s.FirstKey(i); j <= i; ++j) {
      const double dot = Dot(q, at.Query(b, head, i), k, at.Key(b, head, j), s.head_dim);
      scores.push_back(s.Bent(scale * dot, head, i - j));
    }
    const double most = *std::max_element(scores.begin(), scores.end());
    double sum = 0.0;
    for (const double score : scores) {
      sum += std::exp(score - most);
    }
    for (std::int64_t j = s.FirstKey(i); j <= i; ++j) {
      AddScaled(std::exp(scores[Index(j - s.FirstKey(i))] - most) / sum, v, at.Value(b, head, j),
                s.ValueDim(), outputs.out, at.Out(b, head, i));
    }
    outputs.lse[at.Lse(b, head, i)] = most + std::log(sum);
  });
  return outputs;
}

// Backward of FlashAttention (Dao et al. 2022, appendix B). delta = dout . out replaces the sum
// over keys of p * dp, so one pass over the keys is enough.
AttentionGrads AttentionBackward(const AttentionShape& s, const Tensor& q, const Tensor& k,
                                 const Tensor& v, const Tensor& out, const Tensor& lse,
                                 const Tensor& dout) {
  const AttentionPlaces at{s};
  const double scale = 1.0 / std::sqrt(static_cast<double>(s.head_dim));
  AttentionGrads grads{Tensor(q.size(), 0.0), Tensor(k.size(), 0.0), Tensor(v.size(), 0.0)};
  ForEachQuery(s, [&](std::int64_t b, std::int64_t head, std::int64_t i) {
    const std::size_t query = at.Query(b, head, i), of_out = at.Out(b, head, i);
    const double delta = Dot(dout, of_out, out, of_out, s.ValueDim());
    for (std::int64_t j = s.FirstKey(i); j <= i; ++j) {
      const std::size_t key = at.Key(b, head, j), value = at.Value(b, head, j);
      const double score = scale * Dot(q, query, k, key, s.head_dim);
      const double p = std::exp(s.Bent(score, head, i - j) - lse[at.Lse(b, head, i)]);
      const double ds =
          scale * s.BentSlope(score) * p * (Dot(dout, of_out, v, value, s.ValueDim()) - delta);
      AddScaled(p, dout, of_out, s.ValueDim(), grads.v, value);
      AddScaled(ds, k, key, s.head_dim, grads.q, query);
      AddScaled(ds, q, query, s.head_dim, grads.k, key);
    }
  });
  return grads;
}

namespace {

// 0.5 (1 + tanh u) written as sigmoid(2 u), which does not cancel for negative u.
double GeluGate(double x) {
  return Sigmoid(2.0 * std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x));
}

}  // namespace

Tensor GeluForward(const Tensor& x) {
  Tensor y;
  for (const double v : x) {
    y.push_back(v * GeluGate(v));
  }
  return y;
}

// Derivative of x * sigmoid(2 u(x)): gate + x * gate * (1 - gate) * 2 u'(x).
Tensor GeluBackward(const Tensor& x, const Tensor& dy) {
  Tensor dx;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double gate = GeluGate(x[i]);
    const double slope =
        2.0 * std::sqrt(2.0 / std::numbers::pi) * (1.0 + 3.0 * 0.044715 * x[i] * x[i]);
    dx.push_back(dy[i] * (gate + x[i] * gate * (1.0 - gate) * slope));
  }
  return dx;
}

Tensor SwigluForward(std::int64_t cols, const Tensor& x) {
  Tensor y;
  for (std::int64_t row = 0; row < Rows(x, 2 * cols); ++row) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const double gate = x[Index(row * 2 * cols + c)];
      y.push_back(gate * Sigmoid(gate) * x[Index(row * 2 * cols + cols + c)]);
    }
  }
  return y;
}

// d gate = dy * up * (s + gate * s * (1 - s)) and d up = dy * gate * s, with s = sigmoid(gate).
Tensor SwigluBackward(std::int64_t cols, const Tensor& x, const Tensor& dy) {
  Tensor dx(x.size(), 0.0);
  for (std::int64_t row = 0; row < Rows(x, 2 * cols); ++row) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const std::size_t gate = Index(row * 2 * cols + c);
      const std::size_t up = gate + Index(cols);
      const double s = Sigmoid(x[gate]);
      const double d = dy[Index(row * cols + c)];
      dx[gate] = d * x[up] * (s + x[gate] * s * (1.0 - s));
      dx[up] = d * x[gate] * s;
    }
  }
  return dx;
}

Tensor Add(std::int64_t cols, const Tensor& a, const Tensor& b, const Tensor& bias) {
  Tensor sum;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum.push_back(a[i] + b[i] + (bias.empty() ? 0.0 : bias[i % Index(cols)]));
  }
  return sum;
}

// lse subtracts the row's maximum first, so that exp does not overflow.
CrossEntropyOutputs CrossEntropyForward(std::int64_t vocab, double scale, const Tensor& logits,
                                        const std::vector<std::int32_t>& targets) {
  CrossEntropyOutputs outputs;
  for (std::int64_t row = 0; row < static_cast<std::int64_t>(targets.size()); ++row) {
    const auto begin = logits.begin() + row * vocab;
    const double most = *std::max_element(begin, begin + vocab);
    double sum = 0.0;
    for (std::int64_t c = 0; c < vocab; ++c) {
      sum += std::exp(begin[c] - most);
    }
    outputs.lse.push_back(most + std::log(sum));
    if (IsTarget(targets[Index(row)], vocab)) {
      outputs.loss += scale * (outputs.lse.back() - begin[targets[Index(row)]]);
    }
  }
  return outputs;
}

Tensor CrossEntropyBackward(std::int64_t vocab, double scale, const Tensor& logits,
                            const std::vector<std::int32_t>& targets, const Tensor& lse) {
  Tensor grads(logits.size(), 0.0);
  for (std::size_t row = 0; row < targets.size(); ++row) {
    if (!IsTarget(targets[row], vocab)) {
      continue;
    }
    for (std::size_t c = 0; c < Index(vocab); ++c) {
      const std::size_t at = row * Index(vocab) + c;
      grads[at] =
          scale * (std::exp(logits[at] - lse[row]) - (c == Index(targets[row]) ? 1.0 : 0.0));
    }
  }
  return grads;
}

double SquaredNorm(const Tensor& x) {
  double sum = 0.0;
  for (const double v : x) {
    sum += v * v;
  }
  return sum;
}

// Bias correction divides the moments by 1 - beta^step. Decay is decoupled: it scales the weight,
// not the gradient. Clipping only ever shrinks the gradient.
void AdamW(const AdamWSettings& s, const Tensor& grad, Tensor& param, Tensor& moment1,
           Tensor& moment2) {
  const auto step = static_cast<double>(s.step);
  const double clip = s.squared_norm < 0.0 ? 1.0 : s.max_norm / (std::sqrt(s.squared_norm) + 1e-6);
  for (std::size_t i = 0; i < param.size(); ++i) {
    const double g = grad[i] * std::min(1.0, clip);
    moment1[i] = s.beta1 * moment1[i] + (1.0 - s.beta1) * g;
    moment2[i] = s.beta2 * moment2[i] + (1.0 - s.beta2) * g * g;
    const double mean = moment1[i] / (1.0 - std::pow(s.beta1, step));
    const double square = moment2[i] / (1.0 - std::pow(s.beta2, step));
    const double decay = i < Index(s.decayed) ? s.lr * s.weight_decay : 0.0;
    param[i] -= decay * param[i] + s.lr * mean / (std::sqrt(square) + s.epsilon);
  }
}

}  // namespace foretrain::reference
