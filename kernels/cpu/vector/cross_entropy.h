// Cross entropy over whole rows of logits, or over one rank's columns of them.
#pragma once

#include <stdint.h>

#include "base/device_api.h"
#include "kernels/cpu/vector/simd.h"

namespace foretrain::FT_VECTOR_NAMESPACE {

// Maximum of x[n], -infinity if n is 0. Four running maxima hide the latency of the comparison.
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

// Sum of exp(x - largest). Chunks of 4,096 are summed in fp32, the chunk sums in fp64.
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

// log(sum of e^x), with the maximum taken out first, so that no exponential overflows.
FT_INLINE double LogSumExp(int64_t n, const float* x) {
  const float largest = LargestOf(n, x);
  return double{largest} + __builtin_log(SumOfExponentials(n, x, largest));
}

// Number of columns of a rank that stand for an id; all columns if all_ids is 0.
FT_INLINE int64_t UsedColumns(int64_t vocab, int64_t first_id, int64_t all_ids) {
  if (all_ids == 0) {
    return vocab;
  }
  return first_id >= all_ids ? 0 : Least(vocab, all_ids - first_id);
}

// Loss of a row: lse - logit of its target. The sum over rows is in fp64 and in row order. A target
// outside the vocabulary adds nothing. Reads the logits twice.
inline void CrossEntropyForward(const FtCrossEntropyForward& g) {
  const int64_t used = UsedColumns(g.vocab, 0, g.all_ids);
  double sum = 0.0;
  for (int64_t row = 0; row < g.rows; ++row) {
    const float* logits = Floats(g.logits) + row * g.vocab;
    const double lse = LogSumExp(used, logits);
    g.lse[row] = static_cast<float>(lse);
    const int32_t target = g.targets[row];
    if (target >= 0 && target < used) {
      sum += lse - double{logits[target]};
    }
  }
  sum *= double{g.scale};
  g.loss[0] = static_cast<float>(g.accumulate != 0 ? double{g.loss[0]} + sum : sum);
}

// Gradient of a row of capped logits y = cap tanh(x / cap) with respect to x: dy/dx = 1 - (y /
// cap)^2. column is the target's, or -1 if this rank does not hold it.
FT_INLINE void CappedRowGradient(const FtCrossEntropyBackward& g, float* logits, int64_t used,
                                 float lse, int64_t column) {
  const float inverse = 1.0F / g.softcap;
  const float of_target = column >= 0 ? logits[column] * inverse : 0.0F;
  ForEachVector(
      used, [&](int64_t i, auto access) __attribute__((always_inline)) {
        const Vector y = access.load(logits + i);
        const Vector tanh = y * inverse;
        access.store(logits + i, Exp(y - lse) * g.scale * (1.0F - tanh * tanh));
      });
  if (column >= 0) {
    logits[column] -= g.scale * (1.0F - of_target * of_target);
  }
}

// A row whose target adds nothing to the loss gets a zero gradient.
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
    const int64_t column = target - g.first_id;
    const bool here = column >= 0 && column < used;
    if (g.softcap > 0.0F) {
      CappedRowGradient(g, logits, used, lse, here ? column : -1);
      continue;
    }
    ForEachVector(
        used, [&](int64_t i, auto access) __attribute__((always_inline)) {
          access.store(logits + i, Exp(access.load(logits + i) - lse) * g.scale);
        });
    if (here) {
      logits[column] -= g.scale;
    }
  }
}

// ---- with the vocabulary split over ranks

// Three passes with a reduction over ranks between them: the maximum, the sums relative to it, then
// the loss. Each rank reads only its own columns.
inline void VocabMax(const FtVocabMax& g) {
  const int64_t used = UsedColumns(g.vocab, g.first_id, g.all_ids);
  for (int64_t row = 0; row < g.rows; ++row) {
    g.max[row] = LargestOf(used, Floats(g.logits) + row * g.vocab);
  }
}

// `picked` is the target's logit on the rank that holds it and 0 elsewhere, so that a sum over
// ranks finds it.
inline void VocabSums(const FtVocabSums& g) {
  const int64_t used = UsedColumns(g.vocab, g.first_id, g.all_ids);
  for (int64_t row = 0; row < g.rows; ++row) {
    const float* logits = Floats(g.logits) + row * g.vocab;
    g.sum[row] = static_cast<float>(SumOfExponentials(used, logits, g.max[row]));
    const int64_t column = g.targets[row] - g.first_id;
    g.picked[row] = column >= 0 && column < used ? logits[column] : 0.0F;
  }
}

// The same formula as CrossEntropyForward, from the reduced maximum and sum.
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
