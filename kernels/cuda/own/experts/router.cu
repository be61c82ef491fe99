// The router of a mixture of experts: chooses experts and assigns rows. Results follow the order of
// the pairs, whatever the order of threads; atomics count integers only. The file is long because
// choices, weights and their backward belong together.
#include "kernels/cuda/device/entries.h"
#include "kernels/cuda/own/kernel.cuh"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxExperts = 4096;
constexpr std::int64_t kMaxGroups = 64;

// Scores by which experts are chosen: `of` plus an optional bias.
struct Scores {
  const float* of;
  const void* bias;  // NULL if there is none
  FtDtype bias_dtype;

  FT_DEVICE float operator[](std::int64_t e) const {
    return bias == nullptr ? of[e] : of[e] + LoadAny(bias, bias_dtype, e);
  }
};

// True if expert a with score x precedes b with score y. Larger scores come first, on a tie the
// lower number, NaN last. Number -1 stands for no expert.
FT_DEVICE bool ComesBefore(float x, std::int64_t a, float y, std::int64_t b) {
  if (a < 0 || b < 0) return a >= 0;
  if ((x != x) != (y != y)) return y != y;
  if (x == y || x != x) return a < b;
  return x > y;
}

// Sum of the group's group_top largest scores. Each pass finds the next smaller one, on a tie the
// next number.
FT_DEVICE float GroupScore(const FtRoute& g, const Scores& scores, std::int64_t group) {
  const std::int64_t size = g.experts / g.expert_groups, first = group * size;
  const std::int64_t asked = g.group_top > 0 ? g.group_top : g.per_token / g.group_limit;
  const std::int64_t top = asked < 1 ? 1 : asked < size ? asked : size;
  float sum = 0.0F;
  std::int64_t last = -1;
  for (std::int64_t n = 0; n < top; ++n) {
    std::int64_t best = -1;
    for (std::int64_t e = first; e < first + size; ++e) {
      const bool before =
          last >= 0 && (scores[e] > scores[last] || (scores[e] == scores[last] && e <= last));
      if (!before && (best < 0 || scores[e] > scores[best])) best = e;
    }
    if (best < 0) break;  // only NaN scores are left
    sum += scores[best];
    last = best;
  }
  return sum;
}

// One bit per group that the token may use: the group_limit best, on a tie the lower number. Each
// lane scores two groups; a ballot collects the bits.
FT_DEVICE std::uint64_t AllowedGroups(const FtRoute& g, const Scores& scores, float* of_groups) {
  const std::int64_t lane = threadIdx.x;
  for (std::int64_t group = lane; group < g.expert_groups; group += kWarp) {
    of_groups[group] = GroupScore(g, scores, group);
  }
  __syncwarp();
  std::uint64_t allowed = 0;
  for (std::int64_t half = 0; half < kMaxGroups; half += kWarp) {
    const std::int64_t group = half + lane;
    std::int64_t better = 0;
    for (std::int64_t other = 0; group < g.expert_groups && other < g.expert_groups; ++other) {
      const float theirs = of_groups[other], ours = of_groups[group];
      better += theirs > ours || (theirs == ours && other < group) ? 1 : 0;
    }
    const bool in = group < g.expert_groups && better < g.group_limit;
    allowed |= std::uint64_t{__ballot_sync(kAllLanes, in ? 1 : 0)} << half;
  }
  return allowed;
}

// The warp's next choice among experts that `taken` does not mark. Each lane scans every 32nd
// expert, then a butterfly reduction picks the best.
FT_DEVICE std::int64_t NextChoice(const FtRoute& g, const Scores& scores, std::uint64_t allowed,
                                  std::int64_t group_size, const unsigned char* taken) {
  std::int64_t best = -1;
  float score = 0.0F;
  for (std::int64_t e = threadIdx.x; e < g.experts; e += kWarp) {
    if ((allowed >> (e / group_size) & 1U) == 0 || taken[e] != 0) continue;
    const float mine = scores[e];
    if (ComesBefore(mine, e, score, best)) best = e, score = mine;
  }
#pragma unroll
  for (int bits = kWarp / 2; bits > 0; bits /= 2) {
    const float other_score = __shfl_xor_sync(kAllLanes, score, bits);
    const std::int64_t other = __shfl_xor_sync(kAllLanes, best, bits);
    if (ComesBefore(other_score, other, score, best)) best = other, score = other_score;
  }
  return best;
}

// Softmax of n values in place, by one warp. The sum is in fp64.
FT_DEVICE void SoftmaxOfWarp(std::int64_t n, float* x) {
  float largest = -INFINITY;
  for (std::int64_t i = threadIdx.x; i < n; i += kWarp) largest = x[i] > largest ? x[i] : largest;
  largest = JoinWarp(largest, Most{});
  double sum = 0.0;
  for (std::int64_t i = threadIdx.x; i < n; i += kWarp) {
    x[i] = expf(x[i] - largest);
    sum += static_cast<double>(x[i]);
  }
  sum = JoinWarp(sum, Sum{});
  for (std::int64_t i = threadIdx.x; i < n; i += kWarp) {
    x[i] = static_cast<float>(static_cast<double>(x[i]) / sum);
  }
  __syncwarp();
}

// Computes the weights of the chosen experts, by one warp.
FT_DEVICE void WeighChosen(const FtRoute& g, float* weights) {
  if (g.sigmoid == 1) {
    double sum = 0.0;
    for (std::int64_t j = threadIdx.x; j < g.per_token; j += kWarp) {
      sum += static_cast<double>(weights[j]);
    }
    sum = JoinWarp(sum, Sum{}) + 1e-20;  // a sum of zeros stays finite
    for (std::int64_t j = threadIdx.x; j < g.per_token; j += kWarp) {
      weights[j] = static_cast<float>(static_cast<double>(weights[j]) / sum);
    }
  } else if (g.sigmoid == 0 && g.softmax_first == 0) {
    SoftmaxOfWarp(g.per_token, weights);
  }
  if (g.weight_scale <= 0.0F) return;
  for (std::int64_t j = threadIdx.x; j < g.per_token; j += kWarp) weights[j] *= g.weight_scale;
}

// One warp per row, so that all steps synchronize with __syncwarp only. Dynamic shared memory:
// scores and probs [experts] each, group scores, marks of chosen experts.
__global__ void ChooseKernel(FtRoute g) {
  FT_DYN_SHARED(float, scores);
  float* const probs = scores + g.experts;
  float* const of_groups = probs + g.experts;
  auto* const taken = reinterpret_cast<unsigned char*>(of_groups + kMaxGroups);
  const std::int64_t row = blockIdx.x, lane = threadIdx.x;
  for (std::int64_t e = lane; e < g.experts; e += kWarp) {
    const float x = LoadAny(g.logits, g.dtype, row * g.experts + e);
    scores[e] = x;
    probs[e] = g.sigmoid != 0 ? 1.0F / (1.0F + expf(-x)) : x;
    taken[e] = 0;
  }
  __syncwarp();
  if (g.sigmoid == 0) SoftmaxOfWarp(g.experts, probs);
  for (std::int64_t e = lane; e < g.experts; e += kWarp) g.probs[row * g.experts + e] = probs[e];
  const Scores biased{probs, g.choice_bias, g.choice_bias_dtype};
  const Scores by = g.sigmoid != 0 ? biased : Scores{scores, nullptr, FT_F32};
  const bool of_probs = g.softmax_first != 0 || g.sigmoid != 0, limits = g.group_limit > 0;
  const std::uint64_t allowed = limits ? AllowedGroups(g, biased, of_groups) : 1U;
  const std::int64_t group_size = limits ? g.experts / g.expert_groups : g.experts;
  for (std::int64_t j = 0; j < g.per_token; ++j) {
    const std::int64_t at = row * g.per_token + j;
    const std::int64_t e =
        g.replay != 0 ? g.chosen[at] : NextChoice(g, by, allowed, group_size, taken);
    __syncwarp();
    if (lane == 0 && e >= 0 && e < g.experts) {
      g.chosen[at] = static_cast<std::int32_t>(e);
      g.weights[at] = of_probs ? probs[e] : scores[e];
      taken[e] = 1;
      // Integer counts: the order of the atomics does not matter.
      atomicAdd(g.balance_counts + row / g.balance_rows * g.experts + e, 1);
    }
    __syncwarp();
  }
  WeighChosen(g, g.weights + row * g.per_token);
}

__global__ void ClearKernel(std::int32_t* at, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  if (i < n) at[i] = 0;
}

// Expert rows per piece and expert with a capacity.
FT_DEVICE std::int64_t RoomOf(const FtRoute& g) { return (g.capacity + g.pieces - 1) / g.pieces; }

// Number of pairs in [first, end) of experts below `expert`, and of `expert` itself.
struct Counts {
  std::int64_t below, own;
};
FT_DEVICE Counts CountPairs(const FtRoute& g, std::int64_t expert, std::int64_t first,
                            std::int64_t end) {
  std::int64_t below = 0, own = 0;
  for (std::int64_t pair = first + threadIdx.x; pair < end; pair += kBlock) {
    below += g.chosen[pair] < expert ? 1 : 0;
    own += g.chosen[pair] == expert ? 1 : 0;
  }
  return {JoinBlock(below, std::int64_t{0}, Sum{}), JoinBlock<1>(own, std::int64_t{0}, Sum{})};
}

// Calls deal(pair, number) for the expert's pairs in their order, number from 0. The block takes
// kBlock pairs at a time. A ballot numbers them within a warp, and the warps' counts are added in
// order.
template <class Deal>
FT_DEVICE void DealInOrder(const FtRoute& g, std::int64_t expert, std::int64_t first,
                           std::int64_t end, const Deal& deal) {
  __shared__ int of_warps[kBlock / kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  std::int64_t number = 0;
  for (std::int64_t begin = first; begin < end; begin += kBlock) {
    const std::int64_t pair = begin + threadIdx.x;
    const bool is = pair < end && g.chosen[pair] == expert;
    const unsigned votes = __ballot_sync(kAllLanes, is ? 1 : 0);
    if (lane == 0) of_warps[warp] = __popc(votes);
    __syncthreads();
    std::int64_t before = number + __popc(votes & ((1U << lane) - 1U));
    for (int w = 0; w < kBlock / kWarp; ++w) {
      before += w < warp ? of_warps[w] : 0;
      number += of_warps[w];
    }
    if (is) deal(pair, before);
    __syncthreads();
  }
}

// One block per expert (x) and piece (y). Each counts the pairs before its own, so blocks need no
// communication.
__global__ void DealPiecesKernel(FtRoute g) {
  const std::int64_t expert = blockIdx.x, piece = blockIdx.y;
  const std::int64_t first = g.rows * piece / g.pieces * g.per_token;
  const std::int64_t end = g.rows * (piece + 1) / g.pieces * g.per_token;
  const Counts counts = CountPairs(g, expert, first, end);
  if (threadIdx.x == 0) {
    g.counts[piece * g.experts + expert] = static_cast<std::int32_t>(counts.own);
  }
  DealInOrder(g, expert, first, end, [&](std::int64_t pair, std::int64_t number) {
    const std::int64_t at = first + counts.below + number;
    g.places[pair] = static_cast<std::int32_t>(at);
    g.sources[at] = static_cast<std::int32_t>(pair);
  });
}

// One block per expert, for a capacity. The rows that no pair fills get source -1.
__global__ void DealRoomKernel(FtRoute g) {
  const std::int64_t expert = blockIdx.x, pairs = g.rows * g.per_token, room = RoomOf(g);
  const auto place = [&](std::int64_t number) {
    return (number / room * g.experts + expert) * room + number % room;
  };
  const Counts counts = CountPairs(g, expert, 0, pairs);
  if (threadIdx.x == 0) g.counts[expert] = static_cast<std::int32_t>(counts.own);
  DealInOrder(g, expert, 0, pairs, [&](std::int64_t pair, std::int64_t number) {
    const bool fits = number < g.capacity;
    g.places[pair] = fits ? static_cast<std::int32_t>(place(number)) : -1;
    if (fits) g.sources[place(number)] = static_cast<std::int32_t>(pair);
  });
  const std::int64_t used = counts.own < g.capacity ? counts.own : g.capacity;
  for (std::int64_t number = used + threadIdx.x; number < g.pieces * room; number += kBlock) {
    g.sources[place(number)] = -1;
  }
}

void Route(CudaCheck& check, const FtRoute& g) {
  check.AtMost("experts", g.experts, kMaxExperts).AtMost("pieces", g.pieces, 65535);
  if (!check.ok()) return;
  void* const stream = check.stream();
  const auto experts = static_cast<unsigned>(g.experts);
  if (g.rows > 0) {
    const std::int64_t counts = g.rows / g.balance_rows * g.experts;
    const std::size_t shared = (2 * g.experts + kMaxGroups) * sizeof(float) + g.experts;
    FT_LAUNCH(ClearKernel, dim3(Blocks(counts, kBlock)), dim3(kBlock), 0, stream, g.balance_counts,
              counts);
    FT_LAUNCH(ChooseKernel, dim3(Blocks(g.rows, 1)), dim3(kWarp), shared, stream, g);
  }
  if (g.capacity > 0) {
    FT_LAUNCH(DealRoomKernel, dim3(experts), dim3(kBlock), 0, stream, g);
  } else {
    FT_LAUNCH(DealPiecesKernel, dim3(experts, static_cast<unsigned>(g.pieces)), dim3(kBlock), 0,
              stream, g);
  }
}

// ---- backward: one warp per row; kernels/cpu/entries/router.cc derives the terms

struct RouteRow {
  const float* probs;
  const float* weights;
  const float* d_weights;
  const std::int32_t* chosen;
  const std::int32_t* counts;
  std::int64_t out;

  FT_DEVICE RouteRow(const FtRouteBackward& g, std::int64_t row)
      : probs(g.probs + row * g.experts),
        weights(g.weights + row * g.per_token),
        d_weights(g.d_weights + row * g.per_token),
        chosen(g.chosen + row * g.per_token),
        counts(g.balance_counts + row / g.balance_rows * g.experts),
        out(row * g.experts) {}
};

// Index of expert e among the row's chosen, or -1.
FT_DEVICE std::int64_t ChoiceOf(const FtRouteBackward& g, const RouteRow& r, std::int64_t e) {
  for (std::int64_t j = 0; j < g.per_token; ++j) {
    if (r.chosen[j] == e) return j;
  }
  return -1;
}

// Every expert's gradient is written once by its own lane: no atomics on the chosen experts.
FT_DEVICE void SoftmaxBackwardRow(const FtRouteBackward& g, const RouteRow& r, double balance,
                                  double scale) {
  const std::int64_t lane = threadIdx.x;
  double mean = 0.0, weighed = 0.0;
  for (std::int64_t e = lane; e < g.experts; e += kWarp) {
    mean += static_cast<double>(r.probs[e]) * balance * r.counts[e];
  }
  for (std::int64_t j = lane; j < g.per_token; j += kWarp) {
    weighed += static_cast<double>(r.weights[j]) * static_cast<double>(r.d_weights[j]);
  }
  mean = JoinWarp(mean, Sum{});
  weighed = JoinWarp(weighed, Sum{});
  const bool first = g.softmax_first != 0;
  for (std::int64_t e = lane; e < g.experts; e += kWarp) {
    double d =
        static_cast<double>(r.probs[e]) * (balance * r.counts[e] - mean - (first ? weighed : 0.0));
    const std::int64_t j = ChoiceOf(g, r, e);
    if (j >= 0) {
      d += static_cast<double>(r.weights[j]) *
           (static_cast<double>(r.d_weights[j]) - (first ? 0.0 : weighed / scale));
    }
    StoreAny(g.d_logits, g.dtype, r.out + e, static_cast<float>(d));
  }
}

FT_DEVICE void SigmoidBackwardRow(const FtRouteBackward& g, const RouteRow& r, double balance,
                                  double scale) {
  const std::int64_t lane = threadIdx.x;
  double all = 0.0, balanced = 0.0, of_chosen = 0.0, weighed = 0.0;
  for (std::int64_t e = lane; e < g.experts; e += kWarp) {
    all += static_cast<double>(r.probs[e]);
    balanced += static_cast<double>(r.probs[e]) * balance * r.counts[e];
  }
  for (std::int64_t j = lane; j < g.per_token; j += kWarp) {
    of_chosen += static_cast<double>(r.probs[r.chosen[j]]);
    weighed += static_cast<double>(r.weights[j]) / scale * static_cast<double>(r.d_weights[j]);
  }
  all = JoinWarp(all, Sum{}) + 1e-20;
  balanced = JoinWarp(balanced, Sum{});
  of_chosen = JoinWarp(of_chosen, Sum{}) + 1e-20;
  weighed = JoinWarp(weighed, Sum{});
  if (g.sigmoid == 2) of_chosen = 1.0, weighed = 0.0;  // weights are not divided
  for (std::int64_t e = lane; e < g.experts; e += kWarp) {
    const double s = static_cast<double>(r.probs[e]), slope = s * (1.0 - s);
    double d = slope / all * (balance * r.counts[e] - balanced / all);
    const std::int64_t j = ChoiceOf(g, r, e);
    if (j >= 0) d += slope * scale / of_chosen * (static_cast<double>(r.d_weights[j]) - weighed);
    StoreAny(g.d_logits, g.dtype, r.out + e, static_cast<float>(d));
  }
}

__global__ void RouteBackwardKernel(FtRouteBackward g, double balance) {
  const RouteRow row(g, blockIdx.x);
  const double scale = g.weight_scale > 0.0F ? static_cast<double>(g.weight_scale) : 1.0;
  if (g.loss_scale != nullptr) balance = ldexp(balance, static_cast<int>(g.loss_scale[0]));
  if (g.sigmoid != 0) {
    SigmoidBackwardRow(g, row, balance, scale);
  } else {
    SoftmaxBackwardRow(g, row, balance, scale);
  }
}

void RouteBackward(CudaCheck& check, const FtRouteBackward& g) {
  if (g.rows == 0) return;
  // The loss is a mean over rows / balance_rows groups, and each group's probs are a mean over its
  // rows.
  const double balance = static_cast<double>(g.balance) * static_cast<double>(g.experts) /
                         (static_cast<double>(g.balance_rows) * static_cast<double>(g.per_token)) /
                         static_cast<double>(g.rows);
  FT_LAUNCH(RouteBackwardKernel, dim3(Blocks(g.rows, 1)), dim3(kWarp), 0, check.stream(), g,
            balance);
}

}  // namespace

void SetCudaRouterEntries(FtDeviceApi& api) {
  SetCuda<&FtDeviceApi::route, &Route>(api);
  SetCuda<&FtDeviceApi::route_backward, &RouteBackward>(api);
}

}  // namespace foretrain
