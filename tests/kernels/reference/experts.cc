#include "tests/kernels/reference/experts.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

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

std::int64_t BalanceRows(const RouteShape& s, std::int64_t rows) {
  return s.balance_rows > 0 ? s.balance_rows : std::max<std::int64_t>(rows, 1);
}

// Experts of the groups that a token may use, in ascending order. A group's score is the sum of its
// per_token / group_limit largest probabilities (at least one); the group_limit best groups are
// kept.
std::vector<std::int32_t> AllowedExperts(const RouteShape& s, const Tensor& probs) {
  const std::int64_t size = s.experts / s.expert_groups;
  // Negated, so that ascending order puts the best first.
  std::vector<std::pair<double, std::int64_t>> scores;
  for (std::int64_t g = 0; g < s.expert_groups; ++g) {
    Tensor of_group(probs.begin() + g * size, probs.begin() + (g + 1) * size);
    std::sort(of_group.rbegin(), of_group.rend());
    const std::int64_t best =
        s.group_limit > 0 ? std::clamp<std::int64_t>(s.per_token / s.group_limit, 1, size) : size;
    scores.emplace_back(-std::accumulate(of_group.begin(), of_group.begin() + best, 0.0), g);
  }
  std::sort(scores.begin(), scores.end());
  if (s.group_limit > 0) scores.resize(Index(s.group_limit));
  std::vector<std::int32_t> experts;
  for (const auto& [score, g] : scores) {
    for (std::int64_t e = g * size; e < (g + 1) * size; ++e) {
      experts.push_back(static_cast<std::int32_t>(e));
    }
  }
  std::sort(experts.begin(), experts.end());
  return experts;
}

// Assigns expert rows to pairs: sorts the pairs by (piece, expert, pair number). With a capacity,
// pairs beyond it get no row, and each expert's run in a piece is padded to its full size.
void DealRows(const RouteShape& s, std::int64_t rows, RouteOutputs& out) {
  const std::int64_t room = s.capacity > 0 ? (s.capacity + s.pieces - 1) / s.pieces : 0;
  out.counts.assign(Index((s.capacity > 0 ? 1 : s.pieces) * s.experts), 0);
  out.places.assign(out.chosen.size(), -1);
  std::vector<std::vector<std::int32_t>> runs(Index(s.pieces * s.experts));
  for (std::int64_t pair = 0; pair < Size(out.chosen); ++pair) {
    const std::int64_t e = out.chosen[Index(pair)], row = pair / s.per_token;
    std::int64_t piece = 0;
    while (s.capacity == 0 && rows * (piece + 1) / s.pieces <= row) ++piece;
    const std::int64_t before = out.counts[Index(piece * s.experts + e)]++;
    if (s.capacity > 0 && before >= s.capacity) continue;
    if (s.capacity > 0) piece = before / room;
    runs[Index(piece * s.experts + e)].push_back(static_cast<std::int32_t>(pair));
  }
  for (const std::vector<std::int32_t>& run : runs) {
    const std::size_t first = out.sources.size();
    for (const std::int32_t pair : run) {
      out.places[Index(pair)] = static_cast<std::int32_t>(out.sources.size());
      out.sources.push_back(pair);
    }
    if (s.capacity > 0) out.sources.resize(first + Index(room), -1);
  }
}

}  // namespace

// A stable sort by score breaks ties in favour of the lower expert number.
RouteOutputs Route(const RouteShape& s, const Tensor& logits) {
  RouteOutputs out;
  const std::int64_t rows = Size(logits) / s.experts;
  const std::int64_t balance_rows = BalanceRows(s, rows);
  out.balance_counts.assign(Index(rows / balance_rows * s.experts), 0);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto first = logits.begin() + row * s.experts;
    const Tensor scores(first, first + s.experts);
    const Tensor probs = Softmax(scores);
    std::vector<std::int32_t> order = AllowedExperts(s, probs);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return scores[Index(a)] > scores[Index(b)];
    });
    order.resize(Index(s.per_token));
    Tensor weights;
    for (const std::int32_t e : order) {
      weights.push_back(s.softmax_first ? probs[Index(e)] : scores[Index(e)]);
      ++out.balance_counts[Index(row / balance_rows * s.experts + e)];
    }
    if (!s.softmax_first) weights = Softmax(weights);
    out.probs.insert(out.probs.end(), probs.begin(), probs.end());
    out.weights.insert(out.weights.end(), weights.begin(), weights.end());
    out.chosen.insert(out.chosen.end(), order.begin(), order.end());
  }
  DealRows(s, rows, out);
  return out;
}

// Switch Transformer's balance loss (Fedus et al. 2022, eq. 4 to 6): counts and mean probabilities
// per group of rows, averaged over the groups.
double BalanceLoss(const RouteShape& s, double balance, const Tensor& probs,
                   const std::vector<std::int32_t>& balance_counts) {
  const std::int64_t rows = Size(probs) / s.experts;
  const std::int64_t group = BalanceRows(s, rows);
  double sum = 0.0;
  for (std::int64_t i = 0; i < Size(probs); ++i) {
    const std::int64_t row = i / s.experts, e = i % s.experts;
    sum += balance_counts[Index(row / group * s.experts + e)] * probs[Index(i)];
  }
  const auto of_group = static_cast<double>(group);
  return balance * static_cast<double>(s.experts) / (of_group * static_cast<double>(s.per_token)) *
         sum / static_cast<double>(rows);
}

// Both softmaxes use d score = p * (d p - sum of p * d p). The balance loss reaches the scores
// through probs only, because counts are constants.
Tensor RouteBackward(const RouteShape& s, double balance, const RouteOutputs& f,
                     const Tensor& d_weights) {
  const std::int64_t rows = Size(f.probs) / s.experts;
  const std::int64_t group = BalanceRows(s, rows);
  const double per_count = balance * static_cast<double>(s.experts) /
                           (static_cast<double>(group * s.per_token) * static_cast<double>(rows));
  Tensor out(f.probs.size(), 0.0);
  for (std::int64_t row = 0; row < rows; ++row) {
    // Gradients of probs; if the softmax follows the choice, also those of the chosen scores.
    Tensor d_probs(Index(s.experts));
    for (std::int64_t e = 0; e < s.experts; ++e) {
      d_probs[Index(e)] = per_count * f.balance_counts[Index(row / group * s.experts + e)];
    }
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
