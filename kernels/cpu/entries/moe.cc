// Mixture of experts: the router's decisions, rows to and from the experts, and their products,
// which are one GEMM a run of rows. The router works on rows * experts numbers, a hidden width
// fewer than its own GEMM, so that plain loops serve.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/cpu/entries/check.h"
#include "kernels/cpu/entries/families.h"

namespace foretrain {
namespace {

// Numbers of experts, pairs and rows are stored in 32 bits.
constexpr std::int64_t kMostPairs = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMostGroups = 64;

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

// The experts that a token may go to: groups of `group_size`, a bit each.
struct Choice {
  std::int64_t experts = 0, group_size = 1;
  std::uint64_t allowed = 1;
};

// The largest score that is not chosen yet; of equal ones the first. Scores that are NaN come last.
std::int32_t NextChoice(const Choice& among, const float* scores, const std::int32_t* chosen,
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

// The sum of the group's per_token / group_limit largest probabilities, at least of one. The walks
// go from the largest on to the next, of equal ones in order of their numbers.
float GroupScore(const FtRoute& g, const float* probs, std::int64_t group) {
  const std::int64_t size =
      std::min(g.experts / g.expert_groups, std::max<std::int64_t>(1, g.per_token / g.group_limit));
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
    if (best < 0) break;  // NaN
    sum += probs[best];
    last = best;
  }
  return sum;
}

// A bit a group that the token may go to: group_limit of them, the lower number first where scores
// are equal.
std::uint64_t AllowedGroups(const FtRoute& g, const float* probs) {
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

void ChooseExperts(const FtRoute& g, std::int64_t row) {
  const float* scores = static_cast<const float*>(g.logits) + row * g.experts;
  float* probs = g.probs + row * g.experts;
  float* weights = g.weights + row * g.per_token;
  std::int32_t* chosen = g.chosen + row * g.per_token;
  Softmax(g.experts, scores, probs);
  const Choice choice{g.experts, g.group_limit > 0 ? g.experts / g.expert_groups : g.experts,
                      g.group_limit > 0 ? AllowedGroups(g, probs) : 1};
  for (std::int64_t j = 0; j < g.per_token; ++j) {
    if (g.replay == 0) chosen[j] = NextChoice(choice, scores, chosen, j);
    weights[j] = g.softmax_first != 0 ? probs[chosen[j]] : scores[chosen[j]];
    ++g.balance_counts[row / g.balance_rows * g.experts + chosen[j]];
  }
  if (g.softmax_first == 0) Softmax(g.per_token, weights, weights);
}

// Expert rows of one piece and expert with a capacity.
std::int64_t RoomOf(const FtRoute& g) { return (g.capacity + g.pieces - 1) / g.pieces; }
std::int64_t ExpertRowsOf(const FtRoute& g) {
  return g.capacity > 0 ? g.pieces * g.experts * RoomOf(g) : g.rows * g.per_token;
}

// Deals expert rows to pairs, in their order: one walk an expert, so that nothing is allocated.
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

// The same of the pairs [first, end), which are a piece, without a capacity.
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

void CheckRoute(Check& check, const FtRoute& g) {
  check.Size("rows", g.rows).Size("capacity", g.capacity).AtLeast("per_token", g.per_token, 1);
  check.AtLeast("experts", g.experts, g.per_token).AtLeast("pieces", g.pieces, 1);
  check.AtLeast("balance_rows", g.balance_rows, 1).Size("group_limit", g.group_limit);
  if (!check.ok()) return;
  const std::int64_t groups = g.group_limit > 0 ? g.expert_groups : 1;
  if (groups < 1 || groups > kMostGroups || g.experts % groups != 0 || g.group_limit > groups ||
      (g.group_limit > 0 && g.experts / groups * g.group_limit < g.per_token)) {
    check.Refuse(FT_FAILED, "expert_groups %lld, group_limit %lld: do not fit experts %lld",
                 static_cast<long long>(g.expert_groups), static_cast<long long>(g.group_limit),
                 static_cast<long long>(g.experts));
  }
  if (check.ok() && g.rows % g.balance_rows != 0) {
    check.Refuse(FT_FAILED, "rows %lld: must be a multiple of balance_rows %lld",
                 static_cast<long long>(g.rows), static_cast<long long>(g.balance_rows));
  }
  if (check.ok() && (g.rows > kMostPairs / g.per_token || g.experts > kMostPairs / g.pieces ||
                     (g.capacity > 0 && RoomOf(g) > kMostPairs / (g.experts * g.pieces)))) {
    check.Refuse(FT_UNSUPPORTED, "rows %lld, per_token %lld: more than 2^31 pairs or rows",
                 static_cast<long long>(g.rows), static_cast<long long>(g.per_token));
  }
}

FtStatus Route(FtQueue* queue, const FtRoute* g) {
  Check check(queue, "route", g->dtype);
  CheckRoute(check, *g);
  if (!check.ok()) {
    return check.status();
  }
  check.Tensor("logits", g->logits, g->rows, g->experts)
      .Tensor("probs", g->probs, g->rows, g->experts)
      .Tensor("weights", g->weights, g->rows, g->per_token)
      .Tensor("chosen", g->chosen, g->rows, g->per_token)
      .Tensor("places", g->places, g->rows, g->per_token)
      .Tensor("sources", g->sources, ExpertRowsOf(*g))
      .Tensor("counts", g->counts, g->capacity > 0 ? 1 : g->pieces, g->experts)
      .Tensor("balance_counts", g->balance_counts, g->rows / g->balance_rows, g->experts);
  if (check.ok() && g->replay != 0) check.Ids(g->chosen, g->rows * g->per_token, g->experts);
  if (!check.ok()) {
    return check.status();
  }
  std::fill_n(g->balance_counts, g->rows / g->balance_rows * g->experts, 0);
  for (std::int64_t row = 0; row < g->rows; ++row) ChooseExperts(*g, row);
  DealRows(*g);
  return FT_OK;
}

// d of a softmax's input: p (d_p - sum of p d_p). The balance's part of d_p is the same for all
// rows.
void RouteBackwardRow(const FtRouteBackward& g, std::int64_t row, double balance) {
  const float* probs = g.probs + row * g.experts;
  const float* weights = g.weights + row * g.per_token;
  const float* d_weights = g.d_weights + row * g.per_token;
  const std::int32_t* chosen = g.chosen + row * g.per_token;
  const std::int32_t* counts = g.balance_counts + row / g.balance_rows * g.experts;
  float* out = static_cast<float*>(g.d_logits) + row * g.experts;
  double mean = 0.0;     // of the balance's gradient under probs
  double weighed = 0.0;  // of d_weights under weights
  for (std::int64_t e = 0; e < g.experts; ++e) {
    mean += static_cast<double>(probs[e]) * balance * counts[e];
  }
  for (std::int64_t j = 0; j < g.per_token; ++j) {
    weighed += static_cast<double>(weights[j]) * static_cast<double>(d_weights[j]);
  }
  // With the softmax first the weights' mean is taken over all experts, of which the others give 0.
  const double all = g.softmax_first != 0 ? weighed : 0.0;
  for (std::int64_t e = 0; e < g.experts; ++e) {
    out[e] = static_cast<float>(static_cast<double>(probs[e]) * (balance * counts[e] - mean - all));
  }
  for (std::int64_t j = 0; j < g.per_token; ++j) {
    const double d = static_cast<double>(d_weights[j]) - (g.softmax_first != 0 ? 0.0 : weighed);
    out[chosen[j]] += static_cast<float>(static_cast<double>(weights[j]) * d);
  }
}

FtStatus RouteBackward(FtQueue* queue, const FtRouteBackward* g) {
  Check check(queue, "route_backward", g->dtype);
  check.Size("rows", g->rows).AtLeast("per_token", g->per_token, 1);
  check.AtLeast("experts", g->experts, g->per_token).AtLeast("balance_rows", g->balance_rows, 1);
  check.Tensor("probs", g->probs, g->rows, g->experts)
      .Tensor("weights", g->weights, g->rows, g->per_token)
      .Tensor("chosen", g->chosen, g->rows, g->per_token)
      .Tensor("balance_counts", g->balance_counts,
              g->rows / std::max<std::int64_t>(1, g->balance_rows), g->experts)
      .Tensor("d_weights", g->d_weights, g->rows, g->per_token)
      .Tensor("d_logits", g->d_logits, g->rows, g->experts);
  if (!check.ok() || g->rows == 0) {
    return check.status();
  }
  check.Ids(g->chosen, g->rows * g->per_token, g->experts);
  if (!check.ok()) {
    return check.status();
  }
  const double rows = static_cast<double>(g->rows);
  // Of the mean over rows / balance_rows groups, each a mean over its rows.
  const double balance =
      static_cast<double>(g->balance) * static_cast<double>(g->experts) /
      (static_cast<double>(g->balance_rows) * static_cast<double>(g->per_token)) / rows;
  for (std::int64_t row = 0; row < g->rows; ++row) RouteBackwardRow(*g, row, balance);
  return FT_OK;
}

// Each index is -1 or below `end`.
void CheckIndices(Check& check, const char* name, const std::int32_t* indices, std::int64_t count,
                  std::int64_t end) {
  for (std::int64_t i = 0; check.ok() && i < count; ++i) {
    if (indices[i] < -1 || indices[i] >= end) {
      check.Refuse(FT_FAILED, "%s[%lld] is %d: must be from -1 to %lld", name,
                   static_cast<long long>(i), static_cast<int>(indices[i]),
                   static_cast<long long>(end - 1));
    }
  }
}

template <class Arguments>
void CheckSizes(Check& check, const Arguments& g) {
  check.Size("tokens", g.tokens).Size("expert_rows", g.expert_rows).Size("cols", g.cols);
  check.AtLeast("per_token", g.per_token, 1);
}

FtStatus ExpertGather(FtQueue* queue, const FtExpertGather* g) {
  Check check(queue, "expert_gather", g->dtype);
  CheckSizes(check, *g);
  check.Tensor("x", g->x, g->tokens, g->cols)
      .Tensor("sources", g->sources, g->expert_rows)
      .Tensor("out", g->out, g->expert_rows, g->cols);
  if (check.ok()) {
    CheckIndices(check, "sources", g->sources, g->expert_rows, g->tokens * g->per_token);
  }
  if (check.ok()) {
    queue->kernels->expert_gather(*g);
  }
  return check.status();
}

FtStatus ExpertCombine(FtQueue* queue, const FtExpertCombine* g) {
  Check check(queue, "expert_combine", g->dtype);
  CheckSizes(check, *g);
  check.Tensor("x", g->x, g->expert_rows, g->cols)
      .Tensor("places", g->places, g->tokens, g->per_token)
      .Tensor("out", g->out, g->tokens, g->cols);
  if (check.ok()) {
    CheckIndices(check, "places", g->places, g->tokens * g->per_token, g->expert_rows);
  }
  if (check.ok()) {
    queue->kernels->expert_combine(*g);
  }
  return check.status();
}

FtStatus ExpertDots(FtQueue* queue, const FtExpertDots* g) {
  Check check(queue, "expert_dots", g->dtype);
  CheckSizes(check, *g);
  check.Tensor("dy", g->dy, g->tokens, g->cols)
      .Tensor("x", g->x, g->expert_rows, g->cols)
      .Tensor("places", g->places, g->tokens, g->per_token)
      .Tensor("out", g->out, g->tokens, g->per_token);
  if (check.ok()) {
    CheckIndices(check, "places", g->places, g->tokens * g->per_token, g->expert_rows);
  }
  if (check.ok()) {
    queue->kernels->expert_dots(*g);
  }
  return check.status();
}

// The product of `count` rows from `first` on, which are expert `expert`'s.
FtGemm RunOf(const FtGroupedGemm& g, std::int64_t expert, std::int64_t first, std::int64_t count,
             bool adds) {
  const auto* a = static_cast<const float*>(g.a);
  const auto* b = static_cast<const float*>(g.b);
  auto* c = static_cast<float*>(g.c);
  const std::int64_t weight = expert * g.out * g.in;
  FtGemm gemm{};
  gemm.dtype = FT_F32;
  switch (g.mode) {
    case FT_GROUPED_FORWARD:
      gemm.a = a + first * g.in, gemm.b = b + weight, gemm.c = c + first * g.out;
      gemm.m = count, gemm.n = g.out, gemm.k = g.in;
      gemm.lda = g.in, gemm.ldb = g.in, gemm.ldc = g.out, gemm.trans_b = 1;
      break;
    case FT_GROUPED_INPUT:
      gemm.a = a + first * g.out, gemm.b = b + weight, gemm.c = c + first * g.in;
      gemm.m = count, gemm.n = g.in, gemm.k = g.out;
      gemm.lda = g.out, gemm.ldb = g.in, gemm.ldc = g.in;
      break;
    case FT_GROUPED_WEIGHT:
      gemm.a = a + first * g.out, gemm.b = b + first * g.in, gemm.c = c + weight;
      gemm.m = g.out, gemm.n = g.in, gemm.k = count;
      gemm.lda = g.out, gemm.ldb = g.in, gemm.ldc = g.in, gemm.trans_a = 1;
      break;
  }
  gemm.accumulate = (g.mode == FT_GROUPED_WEIGHT && adds) || g.accumulate != 0 ? 1 : 0;
  return gemm;
}

std::int64_t RowsOfRun(const FtGroupedGemm& g, std::int64_t run) {
  if (g.counts == nullptr) return g.rows / g.groups;
  if (g.count_stride == 0) return g.counts[run];
  return g.counts[run / g.experts * g.count_stride + run % g.experts];
}

// Counts must be those of all rows, or of some.
void CheckCounts(Check& check, const FtGroupedGemm& g) {
  std::int64_t sum = 0;
  for (std::int64_t run = 0; check.ok() && run < g.groups; ++run) {
    if (RowsOfRun(g, run) < 0) {
      check.Refuse(FT_FAILED, "counts of run %lld are negative", static_cast<long long>(run));
    }
    sum += RowsOfRun(g, run);
  }
  if (check.ok() && (g.count_stride > 0 ? sum > g.rows : sum != g.rows)) {
    check.Refuse(FT_FAILED, "counts add up to %lld of %lld rows", static_cast<long long>(sum),
                 static_cast<long long>(g.rows));
  }
}

FtStatus GroupedGemm(FtQueue* queue, const FtGroupedGemm* g) {
  Check check(queue, "grouped_gemm", g->dtype);
  check.Size("rows", g->rows).Size("out", g->out).Size("in", g->in);
  check.AtLeast("experts", g->experts, 1).AtLeast("groups", g->groups, g->experts);
  check.Size("count_stride", g->count_stride);
  if (check.ok() && g->groups % g->experts != 0) {
    check.Refuse(FT_FAILED, "groups %lld: must be a multiple of experts %lld",
                 static_cast<long long>(g->groups), static_cast<long long>(g->experts));
  }
  if (check.ok() && g->counts == nullptr && g->rows % g->groups != 0) {
    check.Refuse(FT_FAILED, "groups %lld: do not fit experts %lld and rows %lld",
                 static_cast<long long>(g->groups), static_cast<long long>(g->experts),
                 static_cast<long long>(g->rows));
  }
  const bool weight = g->mode == FT_GROUPED_WEIGHT;
  const std::int64_t of_a = g->mode == FT_GROUPED_FORWARD ? g->in : g->out;
  check.Tensor("a", g->a, g->rows, of_a);
  if (weight) {
    check.Tensor("b", g->b, g->rows, g->in).Tensor("c", g->c, g->experts * g->out, g->in);
  } else {
    check.Tensor("b", g->b, g->experts * g->out, g->in)
        .Tensor("c", g->c, g->rows, g->mode == FT_GROUPED_FORWARD ? g->out : g->in);
  }
  if (g->counts != nullptr) CheckCounts(check, *g);
  if (!check.ok()) {
    return check.status();
  }
  for (std::int64_t run = 0, first = 0; run < g->groups; ++run) {
    const std::int64_t count = RowsOfRun(*g, run);
    const FtGemm gemm = RunOf(*g, run % g->experts, first, count, run >= g->experts);
    if (const FtStatus status = RunGemm(queue, &gemm); status != FT_OK) return status;
    first += count;
  }
  return FT_OK;
}

}  // namespace

void SetMoeEntries(FtDeviceApi& api) {
  api.route = &Route;
  api.route_backward = &RouteBackward;
  api.expert_gather = &ExpertGather;
  api.expert_combine = &ExpertCombine;
  api.expert_dots = &ExpertDots;
  api.grouped_gemm = &GroupedGemm;
}

}  // namespace foretrain
