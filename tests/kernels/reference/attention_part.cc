#include "tests/kernels/reference/attention_part.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace foretrain::reference {
namespace {

std::size_t Index(std::int64_t i) { return static_cast<std::size_t>(i); }

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

// Offsets of one query of one head in the vectors and in lse.
struct Query {
  std::size_t vector, lse;
};

// Calls visit(query, offsets of the keys that it sees) for every query of every head.
template <class Visit>
void ForEachQuery(const AttentionPartShape& s, const Visit& visit) {
  const auto queries = static_cast<std::int64_t>(s.queries.size());
  const auto keys = static_cast<std::int64_t>(s.keys.size());
  for (std::int64_t row = 0; row < s.batch * queries; ++row) {
    const std::int64_t sample = row / queries;
    for (std::int64_t head = 0; head < s.heads; ++head) {
      const std::int64_t kv_head = head / (s.heads / s.kv_heads);
      std::vector<std::size_t> seen;
      for (std::int64_t j = 0; j < keys; ++j) {
        if (!s.Sees(s.queries[Index(row % queries)], s.keys[Index(j)])) continue;
        seen.push_back(Index(((sample * keys + j) * s.kv_heads + kv_head) * s.head_dim));
      }
      const std::int64_t number = row * s.heads + head;
      visit(Query{Index(number * s.head_dim), Index(number)}, seen);
    }
  }
}

}  // namespace

// Recomputes each score three times instead of storing it: reference code stays short. A query
// without keys keeps output 0 and lse -inf.
AttentionOutputs AttentionPartForward(const AttentionPartShape& s, const Tensor& q, const Tensor& k,
                                      const Tensor& v) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(s.head_dim));
  AttentionOutputs outputs{Tensor(q.size(), 0.0), Tensor(q.size() / Index(s.head_dim))};
  ForEachQuery(s, [&](const Query& query, const std::vector<std::size_t>& seen) {
    double most = -std::numeric_limits<double>::infinity();
    for (const std::size_t key : seen) {
      most = std::max(most, scale * Dot(q, query.vector, k, key, s.head_dim));
    }
    double sum = 0.0;
    for (const std::size_t key : seen) {
      sum += std::exp(scale * Dot(q, query.vector, k, key, s.head_dim) - most);
    }
    const double lse = seen.empty() ? most : most + std::log(sum);
    for (const std::size_t key : seen) {
      const double p = std::exp(scale * Dot(q, query.vector, k, key, s.head_dim) - lse);
      AddScaled(p, v, key, s.head_dim, outputs.out, query.vector);
    }
    outputs.lse[query.lse] = lse;
  });
  return outputs;
}

// lse covers all parts, so p is the query's final weight and the gradients of the parts add up.
AttentionGrads AttentionPartBackward(const AttentionPartShape& s, const Tensor& q, const Tensor& k,
                                     const Tensor& v, const Tensor& out, const Tensor& lse,
                                     const Tensor& dout) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(s.head_dim));
  AttentionGrads grads{Tensor(q.size(), 0.0), Tensor(k.size(), 0.0), Tensor(v.size(), 0.0)};
  ForEachQuery(s, [&](const Query& query, const std::vector<std::size_t>& seen) {
    const double delta = Dot(dout, query.vector, out, query.vector, s.head_dim);
    for (const std::size_t key : seen) {
      const double p = std::exp(scale * Dot(q, query.vector, k, key, s.head_dim) - lse[query.lse]);
      const double ds = scale * p * (Dot(dout, query.vector, v, key, s.head_dim) - delta);
      AddScaled(p, dout, query.vector, s.head_dim, grads.v, key);
      AddScaled(ds, k, key, s.head_dim, grads.q, query.vector);
      AddScaled(ds, q, query.vector, s.head_dim, grads.k, key);
    }
  });
  return grads;
}

// Weighs each part by e^(lse of the part - lse of both). Two empty parts stay empty.
AttentionOutputs MergeParts(const AttentionPartShape& s, const AttentionOutputs& a,
                            const AttentionOutputs& b) {
  AttentionOutputs merged = a;
  for (std::size_t i = 0; i < a.lse.size(); ++i) {
    const double most = std::max(a.lse[i], b.lse[i]);
    if (std::isinf(most)) continue;
    const double lse = most + std::log(std::exp(a.lse[i] - most) + std::exp(b.lse[i] - most));
    for (std::size_t c = i * Index(s.head_dim); c < (i + 1) * Index(s.head_dim); ++c) {
      merged.out[c] = std::exp(a.lse[i] - lse) * a.out[c] + std::exp(b.lse[i] - lse) * b.out[c];
    }
    merged.lse[i] = lse;
  }
  return merged;
}

}  // namespace foretrain::reference
