// Cross entropy, of whole rows of logits or of one rank's columns of them.
#pragma once

#include <stdint.h>

#include "base/device_api.h"
#include "kernels/cpu/vector/simd.h"

namespace foretrain::FT_VECTOR_NAMESPACE {

FT_INLINE float LargestOf(int64_t n, const float* x) {
  Vector most[4];
  for (Vector& v : most) {
    v = Set(-__builtin_inff());
  }
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      most[j] = Max(most[j], Load(x + i + j * kLanes));
    }
  }
  float lanes[kLanes];
  Store(lanes, Max(Max(most[0], most[1]), Max(most[2], most[3])));
  float largest = lanes[0];
  for (int lane = 1; lane < kLanes; ++lane) {
    largest = largest > lanes[lane] ? largest : lanes[lane];
  }
  for (; i < n; ++i) {
    largest = largest > x[i] ? largest : x[i];
  }
  return largest;
}

// Sum of exp(x - largest); sums of 4,096 in single precision, those in double.
FT_INLINE double SumOfExponentials(int64_t n, const float* x, float largest) {
  constexpr int64_t kChunk = 4096;
  double sum = 0.0;
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    sum += double{SumOver(
        Least(kChunk, n - begin), [&](int64_t i, auto access) __attribute__((always_inline)) {
          return access.keep(Exp(access.load(x + begin + i) - largest));
        })};
  }
  return sum;
}

FT_INLINE double LogSumExp(int64_t n, const float* x) {
  const float largest = LargestOf(n, x);
  return double{largest} + __builtin_log(SumOfExponentials(n, x, largest));
}

inline void CrossEntropyForward(const FtCrossEntropyForward& g) {
  double sum = 0.0;
  for (int64_t row = 0; row < g.rows; ++row) {
    const float* logits = Floats(g.logits) + row * g.vocab;
    const double lse = LogSumExp(g.vocab, logits);
    g.lse[row] = static_cast<float>(lse);
    const int32_t target = g.targets[row];
    if (target >= 0 && target < g.vocab) {
      sum += lse - double{logits[target]};
    }
  }
  sum *= double{g.scale};
  g.loss[0] = static_cast<float>(g.accumulate != 0 ? double{g.loss[0]} + sum : sum);
}

// Columns of a rank's share that stand for an id; the share is the whole where all_ids is 0.
FT_INLINE int64_t UsedColumns(int64_t vocab, int64_t first_id, int64_t all_ids) {
  if (all_ids == 0) {
    return vocab;
  }
  return first_id >= all_ids ? 0 : Least(vocab, all_ids - first_id);
}

// A row whose target adds nothing to the loss has no gradient.
inline void CrossEntropyBackward(const FtCrossEntropyBackward& g) {
  const int64_t used = UsedColumns(g.vocab, g.first_id, g.all_ids);
  const int64_t ids = g.all_ids == 0 ? g.vocab : g.all_ids;
  for (int64_t row = 0; row < g.rows; ++row) {
    float* logits = Floats(g.logits) + row * g.vocab;
    const int64_t target = g.targets[row];
    const bool counts = target >= 0 && target < ids;
    const int64_t begin = counts ? used : 0;
    memset(logits + begin, 0, static_cast<size_t>(g.vocab - begin) * sizeof(float));
    if (!counts) {
      continue;
    }
    const float lse = g.lse[row];
    // d tanh = 1 - tanh^2.
    const float inverse = g.softcap > 0.0F ? 1.0F / g.softcap : 0.0F;
    const int64_t column = target - g.first_id;
    const bool here = column >= 0 && column < used;
    const float of_target = here ? logits[column] * inverse : 0.0F;
    ForEachVector(
        used, [&](int64_t i, auto access) __attribute__((always_inline)) {
          const Vector x = access.load(logits + i);
          const Vector capped = x * inverse;
          access.store(logits + i, Exp(x - lse) * g.scale * (1.0F - capped * capped));
        });
    if (here) {
      logits[column] -= g.scale * (1.0F - of_target * of_target);
    }
  }
}

// ---- with the vocabulary split over ranks
// ----------------------------------------------------------------------------

inline void VocabMax(const FtVocabMax& g) {
  const int64_t used = UsedColumns(g.vocab, g.first_id, g.all_ids);
  for (int64_t row = 0; row < g.rows; ++row) {
    g.max[row] = LargestOf(used, Floats(g.logits) + row * g.vocab);
  }
}

inline void VocabSums(const FtVocabSums& g) {
  const int64_t used = UsedColumns(g.vocab, g.first_id, g.all_ids);
  for (int64_t row = 0; row < g.rows; ++row) {
    const float* logits = Floats(g.logits) + row * g.vocab;
    g.sum[row] = static_cast<float>(SumOfExponentials(used, logits, g.max[row]));
    const int64_t column = g.targets[row] - g.first_id;
    g.picked[row] = column >= 0 && column < used ? logits[column] : 0.0F;
  }
}

inline void VocabLoss(const FtVocabLoss& g) {
  double sum = 0.0;
  for (int64_t row = 0; row < g.rows; ++row) {
    const double lse = double{g.max[row]} + __builtin_log(double{g.sum[row]});
    g.lse[row] = static_cast<float>(lse);
    if (g.targets[row] >= 0 && g.targets[row] < g.all_ids) {
      sum += lse - double{g.picked[row]};
    }
  }
  sum *= double{g.scale};
  g.loss[0] = static_cast<float>(g.accumulate != 0 ? double{g.loss[0]} + sum : sum);
}

}  // namespace foretrain::FT_VECTOR_NAMESPACE
