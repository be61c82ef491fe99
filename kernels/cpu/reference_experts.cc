#include "kernels/cpu/reference_experts.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace foretrain::reference {
namespace {

std::size_t Index(std::int64_t i) { return static_cast<std::size_t>(i); }
std::int64_t Size(const auto& x) { return static_cast<std::int64_t>(x.size()); }

Tensor Softmax(Tensor x) {
  const double largest = *std::max_element(x.begin(), x.end());
  double sum = 0.0;
  for (double& v : x) sum += v = std::exp(v - largest);
  for (double& v : x) v /= sum;
  return x;
}

}  // namespace

RouteOutputs Route(const RouteShape& s, const Tensor& logits) {
  RouteOutputs out;
  out.counts.assign(Index(s.experts), 0);
  for (std::int64_t row = 0; row < Size(logits) / s.experts; ++row) {
    const auto first = logits.begin() + row * s.experts;
    const Tensor scores(first, first + s.experts);
    const Tensor probs = Softmax(scores);
    std::vector<std::int32_t> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return scores[Index(a)] > scores[Index(b)];
    });
    order.resize(Index(s.per_token));
    Tensor weights;
    for (const std::int32_t e : order) {
      weights.push_back(s.softmax_first ? probs[Index(e)] : scores[Index(e)]);
      ++out.counts[Index(e)];
    }
    if (!s.softmax_first) weights = Softmax(weights);
    out.probs.insert(out.probs.end(), probs.begin(), probs.end());
    out.weights.insert(out.weights.end(), weights.begin(), weights.end());
    out.chosen.insert(out.chosen.end(), order.begin(), order.end());
  }
  // Rows of an expert come in order of the pairs.
  std::vector<std::int32_t> next(Index(s.experts), 0);
  for (std::int64_t e = 1; e < s.experts; ++e) {
    next[Index(e)] = static_cast<std::int32_t>(
        s.capacity > 0 ? e * s.capacity : next[Index(e - 1)] + out.counts[Index(e - 1)]);
  }
  out.sources.assign(s.capacity > 0 ? Index(s.experts * s.capacity) : out.chosen.size(), -1);
  for (std::size_t pair = 0; pair < out.chosen.size(); ++pair) {
    const std::int64_t e = out.chosen[pair];
    const std::int32_t place = next[Index(e)];
    const bool fits = s.capacity == 0 || place < (e + 1) * s.capacity;
    out.places.push_back(fits ? place : -1);
    if (!fits) continue;
    out.sources[Index(place)] = static_cast<std::int32_t>(pair);
    ++next[Index(e)];
  }
  return out;
}

double BalanceLoss(const RouteShape& s, double balance, const Tensor& probs,
                   const std::vector<std::int32_t>& counts) {
  const double rows = static_cast<double>(Size(probs) / s.experts);
  double sum = 0.0;
  for (std::int64_t i = 0; i < Size(probs); ++i) {
    sum += counts[Index(i % s.experts)] * probs[Index(i)] / rows;
  }
  return balance * static_cast<double>(s.experts) / (rows * static_cast<double>(s.per_token)) * sum;
}

Tensor RouteBackward(const RouteShape& s, double balance, const RouteOutputs& f,
                     const Tensor& d_weights) {
  const std::int64_t rows = Size(f.probs) / s.experts;
  const double per_count = balance * static_cast<double>(s.experts) /
                           (static_cast<double>(rows * s.per_token) * static_cast<double>(rows));
  Tensor out(f.probs.size(), 0.0);
  for (std::int64_t row = 0; row < rows; ++row) {
    // The gradients of probs and, with the softmax behind the choice, of the chosen scores.
    Tensor d_probs(Index(s.experts));
    for (std::int64_t e = 0; e < s.experts; ++e) d_probs[Index(e)] = per_count * f.counts[Index(e)];
    double weighed = 0.0;
    for (std::int64_t j = 0; j < s.per_token; ++j) {
      const std::size_t pair = Index(row * s.per_token + j);
      if (s.softmax_first) d_probs[Index(f.chosen[pair])] += d_weights[pair];
      weighed += f.weights[pair] * d_weights[pair];
    }
    for (std::int64_t j = 0; j < s.per_token && !s.softmax_first; ++j) {
      const std::size_t pair = Index(row * s.per_token + j);
      out[Index(row * s.experts + f.chosen[pair])] += f.weights[pair] * (d_weights[pair] - weighed);
    }
    double mean = 0.0;
    for (std::int64_t e = 0; e < s.experts; ++e) {
      mean += f.probs[Index(row * s.experts + e)] * d_probs[Index(e)];
    }
    for (std::int64_t e = 0; e < s.experts; ++e) {
      out[Index(row * s.experts + e)] +=
          f.probs[Index(row * s.experts + e)] * (d_probs[Index(e)] - mean);
    }
  }
  return out;
}

Tensor ExpertGather(const RowsShape& s, const Tensor& x, const std::vector<std::int32_t>& sources,
                    const Tensor& weights) {
  Tensor out(sources.size() * Index(s.cols), 0.0);
  for (std::int64_t row = 0; row < Size(sources); ++row) {
    const std::int64_t pair = sources[Index(row)];
    for (std::int64_t c = 0; c < s.cols && pair >= 0; ++c) {
      out[Index(row * s.cols + c)] = (weights.empty() ? 1.0 : weights[Index(pair)]) *
                                     x[Index(pair / s.per_token * s.cols + c)];
    }
  }
  return out;
}

Tensor ExpertCombine(const RowsShape& s, const Tensor& x, const std::vector<std::int32_t>& places,
                     const Tensor& weights) {
  Tensor out(places.size() / Index(s.per_token) * Index(s.cols), 0.0);
  for (std::int64_t pair = 0; pair < Size(places); ++pair) {
    const std::int64_t row = places[Index(pair)];
    for (std::int64_t c = 0; c < s.cols && row >= 0; ++c) {
      out[Index(pair / s.per_token * s.cols + c)] +=
          (weights.empty() ? 1.0 : weights[Index(pair)]) * x[Index(row * s.cols + c)];
    }
  }
  return out;
}

Tensor ExpertDots(const RowsShape& s, const Tensor& dy, const Tensor& x,
                  const std::vector<std::int32_t>& places) {
  Tensor out(places.size(), 0.0);
  for (std::int64_t pair = 0; pair < Size(places); ++pair) {
    const std::int64_t row = places[Index(pair)];
    for (std::int64_t c = 0; c < s.cols && row >= 0; ++c) {
      out[Index(pair)] += dy[Index(pair / s.per_token * s.cols + c)] * x[Index(row * s.cols + c)];
    }
  }
  return out;
}

Tensor GroupedForward(const GroupedShape& s, const std::vector<std::int32_t>& expert_of,
                      const Tensor& x, const Tensor& w) {
  Tensor y(expert_of.size() * Index(s.out), 0.0);
  for (std::int64_t row = 0; row < Size(expert_of); ++row) {
    for (std::int64_t o = 0; o < s.out; ++o) {
      for (std::int64_t i = 0; i < s.in; ++i) {
        y[Index(row * s.out + o)] +=
            x[Index(row * s.in + i)] * w[Index((expert_of[Index(row)] * s.out + o) * s.in + i)];
      }
    }
  }
  return y;
}

Tensor GroupedInput(const GroupedShape& s, const std::vector<std::int32_t>& expert_of,
                    const Tensor& dy, const Tensor& w) {
  Tensor dx(expert_of.size() * Index(s.in), 0.0);
  for (std::int64_t row = 0; row < Size(expert_of); ++row) {
    for (std::int64_t o = 0; o < s.out; ++o) {
      for (std::int64_t i = 0; i < s.in; ++i) {
        dx[Index(row * s.in + i)] +=
            dy[Index(row * s.out + o)] * w[Index((expert_of[Index(row)] * s.out + o) * s.in + i)];
      }
    }
  }
  return dx;
}

Tensor GroupedWeight(const GroupedShape& s, const std::vector<std::int32_t>& expert_of,
                     const Tensor& dy, const Tensor& x) {
  Tensor dw(Index(s.experts * s.out * s.in), 0.0);
  for (std::int64_t row = 0; row < Size(expert_of); ++row) {
    for (std::int64_t o = 0; o < s.out; ++o) {
      for (std::int64_t i = 0; i < s.in; ++i) {
        dw[Index((expert_of[Index(row)] * s.out + o) * s.in + i)] +=
            dy[Index(row * s.out + o)] * x[Index(row * s.in + i)];
      }
    }
  }
  return dw;
}

}  // namespace foretrain::reference
