// The router of a mixture of experts: chooses experts and assigns rows. It works on rows * experts
// values, far fewer than its GEMM, so plain loops are fast enough.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/cpu/entries/entry.h"
#include "kernels/cpu/entries/families.h"

namespace foretrain {
namespace {

// The maximum is subtracted before exp; the sum is in fp64.
void Softmax(std::int64_t n, const float* x, float* y) {
  float largest = -std::numeric_limits<float>::infinity();
  for (std::int64_t i = 0; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  double sum = 0.0;
  for (std::int64_t i = 0; i < n; ++i) {
    y[i] = std::exp(x[i] - largest);
    sum += static_cast<double>(y[i]);
  }
  for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(static_cast<double>(y[i]) / sum);
}

// Experts that a token may use: groups of `group_size` experts, one bit per group.
struct Choice {
  std::int64_t experts = 0, group_size = 1;
  std::uint64_t allowed = 1;
};

// Scores by which experts are chosen: `of` plus an optional bias.
struct Scores {
  const float* of;
  const float* bias;  // NULL if there is none

  float operator[](std::int64_t e) const { return bias == nullptr ? of[e] : of[e] + bias[e]; }
};

// Expert with the largest score that is not chosen yet; on a tie the first. NaN scores come last.
std::int32_t NextChoice(const Choice& among, const Scores& scores, const std::int32_t* chosen,
                        std::int64_t count) {
  std::int64_t best = -1;
  for (std::int64_t e = 0; e < among.experts; ++e) {
    if ((among.allowed >> (e / among.group_size) & 1U) == 0) continue;
    if (std::find(chosen, chosen + count, e) != chosen + count) continue;
    if (best < 0 || scores[e] > scores[best] ||
        (std::isnan(scores[best]) && !std::isnan(scores[e])))
      best = e;
  }
  return static_cast<std::int32_t>(best);
}

// Sum of the group's group_top largest scores. Each pass finds the next smaller score, on a tie the
// next number, so nothing is sorted or allocated.
float GroupScore(const FtRoute& g, const Scores& probs, std::int64_t group) {
  const std::int64_t top = g.group_top > 0 ? g.group_top : g.per_token / g.group_limit;
  const std::int64_t size = std::min(g.experts / g.expert_groups, std::max<std::int64_t>(1, top));
  const std::int64_t first = group * (g.experts / g.expert_groups);
  float sum = 0.0F;
  std::int64_t last = -1;
  for (std::int64_t n = 0; n < size; ++n) {
    std::int64_t best = -1;
    for (std::int64_t e = first; e < first + g.experts / g.expert_groups; ++e) {
      const bool before =
          last >= 0 && (probs[e] > probs[last] || (probs[e] == probs[last] && e <= last));
      if (!before && (best < 0 || probs[e] > probs[best])) best = e;
    }
    if (best < 0) break;  // only NaN scores are left
    sum += probs[best];
    last = best;
  }
  return sum;
}

// One bit per group that the token may use: the group_limit best groups, on a tie the lower number.
std::uint64_t AllowedGroups(const FtRoute& g, const Scores& probs) {
  std::uint64_t allowed = 0;
  for (std::int64_t group = 0; group < g.expert_groups; ++group) {
    const float score = GroupScore(g, probs, group);
    std::int64_t better = 0;
    for (std::int64_t other = 0; other < g.expert_groups; ++other) {
      const float theirs = GroupScore(g, probs, other);
      if (theirs > score || (theirs == score && other < group)) ++better;
    }
    if (better < g.group_limit) allowed |= std::uint64_t{1} << group;
  }
  return allowed;
}

// Normalizes the sigmoids of the chosen experts.
void DivideBySum(std::int64_t n, float* weights) {
  double sum = 1e-20;  // as in the reference model: a sum of zeros stays finite
  for (std::int64_t j = 0; j < n; ++j) sum += static_cast<double>(weights[j]);
  for (std::int64_t j = 0; j < n; ++j) {
    weights[j] = static_cast<float>(static_cast<double>(weights[j]) / sum);
  }
}

// Fills probs, chosen and weights of one row. With sigmoids, biased scores decide the choice, but
// weights use the unbiased ones. A replay keeps the given choice and only recomputes the weights.
void ChooseExperts(const FtRoute& g, std::int64_t row) {
  const float* scores = static_cast<const float*>(g.logits) + row * g.experts;
  float* probs = g.probs + row * g.experts;
  float* weights = g.weights + row * g.per_token;
  std::int32_t* chosen = g.chosen + row * g.per_token;
  if (g.sigmoid != 0) {
    for (std::int64_t e = 0; e < g.experts; ++e) probs[e] = 1.0F / (1.0F + std::exp(-scores[e]));
  } else {
    Softmax(g.experts, scores, probs);
  }
  const bool of_probs = g.softmax_first != 0 || g.sigmoid != 0;
  const Scores biased{probs, static_cast<const float*>(g.choice_bias)};
  const Scores by = g.sigmoid != 0 ? biased : Scores{scores, nullptr};
  const Choice choice{g.experts, g.group_limit > 0 ? g.experts / g.expert_groups : g.experts,
                      g.group_limit > 0 ? AllowedGroups(g, biased) : 1};
  for (std::int64_t j = 0; j < g.per_token; ++j) {
    if (g.replay == 0) chosen[j] = NextChoice(choice, by, chosen, j);
    weights[j] = of_probs ? probs[chosen[j]] : scores[chosen[j]];
    ++g.balance_counts[row / g.balance_rows * g.experts + chosen[j]];
  }
  if (g.sigmoid == 1) {
    DivideBySum(g.per_token, weights);
  } else if (g.sigmoid == 0 && g.softmax_first == 0) {
    Softmax(g.per_token, weights, weights);
  }
  if (g.weight_scale <= 0.0F) return;
  for (std::int64_t j = 0; j < g.per_token; ++j) weights[j] *= g.weight_scale;
}

// Expert rows per piece and expert with a capacity.
std::int64_t RoomOf(const FtRoute& g) { return (g.capacity + g.pieces - 1) / g.pieces; }
std::int64_t ExpertRowsOf(const FtRoute& g) {
  return g.capacity > 0 ? g.pieces * g.experts * RoomOf(g) : g.rows * g.per_token;
}

// Assigns expert rows with a capacity, in the order of the pairs. One pass over all pairs per
// expert, so that nothing is allocated. The n-th pair of an expert goes to piece n / room.
void DealRoom(const FtRoute& g) {
  const std::int64_t pairs = g.rows * g.per_token, room = RoomOf(g);
  std::fill_n(g.sources, ExpertRowsOf(g), -1);
  for (std::int64_t e = 0; e < g.experts; ++e) {
    std::int32_t count = 0;
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      if (g.chosen[pair] != e) continue;
      const std::int64_t at = (count / room * g.experts + e) * room + count % room;
      g.places[pair] = count < g.capacity ? static_cast<std::int32_t>(at) : -1;
      if (count < g.capacity) g.sources[at] = static_cast<std::int32_t>(pair);
      ++count;
    }
    g.counts[e] = count;
  }
}

// Assigns expert rows to pairs [first, end), which form one piece without capacity.
void DealPiece(const FtRoute& g, std::int64_t first, std::int64_t end, std::int32_t* counts) {
  std::int64_t at = first;
  for (std::int64_t e = 0; e < g.experts; ++e) {
    const std::int64_t begin = at;
    for (std::int64_t pair = first; pair < end; ++pair) {
      if (g.chosen[pair] != e) continue;
      g.places[pair] = static_cast<std::int32_t>(at);
      g.sources[at++] = static_cast<std::int32_t>(pair);
    }
    counts[e] = static_cast<std::int32_t>(at - begin);
  }
}

void DealRows(const FtRoute& g) {
  if (g.capacity > 0) return DealRoom(g);
  for (std::int64_t p = 0; p < g.pieces; ++p) {
    DealPiece(g, g.rows * p / g.pieces * g.per_token, g.rows * (p + 1) / g.pieces * g.per_token,
              g.counts + p * g.experts);
  }
}

void Route(Check& check, const FtRoute& g) {
  if (g.replay != 0) check.Ids(g.chosen, g.rows * g.per_token, g.experts);
  if (!check.ok()) return;
  std::fill_n(g.balance_counts, g.rows / g.balance_rows * g.experts, 0);
  for (std::int64_t row = 0; row < g.rows; ++row) ChooseExperts(g, row);
  DealRows(g);
}

double WeightScale(const FtRouteBackward& g) {
  return g.weight_scale > 0.0F ? static_cast<double>(g.weight_scale) : 1.0;
}

// Gradient of a softmax's input: p (d_p - sum of p d_p). `balance` times an expert's count is the
// balance loss's gradient of its prob.
void SoftmaxBackwardRow(const FtRouteBackward& g, std::int64_t row, double balance) {
  const float* probs = g.probs + row * g.experts;
  const float* weights = g.weights + row * g.per_token;
  const float* d_weights = g.d_weights + row * g.per_token;
  const std::int32_t* chosen = g.chosen + row * g.per_token;
  const std::int32_t* counts = g.balance_counts + row / g.balance_rows * g.experts;
  float* out = static_cast<float*>(g.d_logits) + row * g.experts;
  double mean = 0.0;     // balance gradient under probs
  double weighed = 0.0;  // d_weights, weighted by weights
  for (std::int64_t e = 0; e < g.experts; ++e) {
    mean += static_cast<double>(probs[e]) * balance * counts[e];
  }
  for (std::int64_t j = 0; j < g.per_token; ++j) {
    weighed += static_cast<double>(weights[j]) * static_cast<double>(d_weights[j]);
  }
  // With the softmax first, the mean runs over all experts; d_weights of the others is 0.
  const double all = g.softmax_first != 0 ? weighed : 0.0;
  const double scale = WeightScale(g);
  for (std::int64_t e = 0; e < g.experts; ++e) {
    out[e] = static_cast<float>(static_cast<double>(probs[e]) * (balance * counts[e] - mean - all));
  }
  for (std::int64_t j = 0; j < g.per_token; ++j) {
    const double d =
        static_cast<double>(d_weights[j]) - (g.softmax_first != 0 ? 0.0 : weighed / scale);
    out[chosen[j]] += static_cast<float>(static_cast<double>(weights[j]) * d);
  }
}

// s is the sigmoid, S its sum over the chosen, A its sum over all experts. Weights are scale s / S,
// with gradient scale / S (d - mean of d under s / S); undivided ones are scale s, with gradient
// scale d. The balance loss acts on s / A. The gradient of a sigmoid's input is s (1 - s) ds.
void SigmoidBackwardRow(const FtRouteBackward& g, std::int64_t row, double balance) {
  const float* probs = g.probs + row * g.experts;
  const float* weights = g.weights + row * g.per_token;
  const float* d_weights = g.d_weights + row * g.per_token;
  const std::int32_t* chosen = g.chosen + row * g.per_token;
  const std::int32_t* counts = g.balance_counts + row / g.balance_rows * g.experts;
  float* out = static_cast<float*>(g.d_logits) + row * g.experts;
  const double scale = WeightScale(g);
  double all = 1e-20, balanced = 0.0, of_chosen = 1e-20, weighed = 0.0;
  for (std::int64_t e = 0; e < g.experts; ++e) {
    all += static_cast<double>(probs[e]);
    balanced += static_cast<double>(probs[e]) * balance * counts[e];
  }
  for (std::int64_t j = 0; j < g.per_token; ++j) {
    of_chosen += static_cast<double>(probs[chosen[j]]);
    weighed += static_cast<double>(weights[j]) / scale * static_cast<double>(d_weights[j]);
  }
  if (g.sigmoid == 2) of_chosen = 1.0, weighed = 0.0;
  const auto slope = [&](std::int64_t e) {
    const double s = static_cast<double>(probs[e]);
    return s * (1.0 - s);
  };
  for (std::int64_t e = 0; e < g.experts; ++e) {
    out[e] = static_cast<float>(slope(e) / all * (balance * counts[e] - balanced / all));
  }
  for (std::int64_t j = 0; j < g.per_token; ++j) {
    const double d = static_cast<double>(d_weights[j]) - weighed;
    out[chosen[j]] += static_cast<float>(slope(chosen[j]) * scale / of_chosen * d);
  }
}

void RouteBackwardRow(const FtRouteBackward& g, std::int64_t row, double balance) {
  g.sigmoid != 0 ? SigmoidBackwardRow(g, row, balance) : SoftmaxBackwardRow(g, row, balance);
}

void RouteBackward(Check& check, const FtRouteBackward& g) {
  check.Ids(g.chosen, g.rows * g.per_token, g.experts);
  if (!check.ok() || g.rows == 0) return;
  const double rows = static_cast<double>(g.rows);
  // The loss is a mean over rows / balance_rows groups, and each group's probs are a mean over its
  // rows.
  const double scaled = g.loss_scale == nullptr ? static_cast<double>(g.balance)
                                                : std::ldexp(static_cast<double>(g.balance),
                                                             static_cast<int>(g.loss_scale[0]));
  const double balance = scaled * static_cast<double>(g.experts) /
                         (static_cast<double>(g.balance_rows) * static_cast<double>(g.per_token)) /
                         rows;
  for (std::int64_t row = 0; row < g.rows; ++row) RouteBackwardRow(g, row, balance);
}

}  // namespace

void SetRouterEntries(FtDeviceApi& api) {
  Set<&FtDeviceApi::route, &Route>(api);
  Set<&FtDeviceApi::route_backward, &RouteBackward>(api);
}

}  // namespace foretrain
