// Moves rows to experts and back. Leaves out the choice of rows (kernels/cpu/entries/moe.cc) and
// the experts' products, which are GEMMs.
#pragma once

#include <stdint.h>

#include "base/device_api.h"
#include "kernels/cpu/vector/simd.h"

namespace foretrain::FT_VECTOR_NAMESPACE {

// Gathers rows into expert order. `source` counts pairs of token and choice; below 0 it marks
// padding, which becomes zeros.
inline void ExpertGather(const FtExpertGather& g) {
  for (int64_t row = 0; row < g.expert_rows; ++row) {
    const int64_t source = g.sources[row];
    float* to = Floats(g.out) + row * g.cols;
    if (source < 0) {
      memset(to, 0, static_cast<size_t>(g.cols) * sizeof(float));
      continue;
    }
    const float* from = Floats(g.x) + source / g.per_token * g.cols;
    if (g.weights == nullptr) {
      memcpy(to, from, static_cast<size_t>(g.cols) * sizeof(float));
      continue;
    }
    const float weight = g.weights[source];
    ForEachVector(
        g.cols, [&](int64_t c, auto access) __attribute__((always_inline)) {
          access.store(to + c, access.load(from + c) * weight);
        });
  }
}

// The first expert's row overwrites the output, later ones add to it in the order of j.
inline void ExpertCombine(const FtExpertCombine& g) {
  for (int64_t token = 0; token < g.tokens; ++token) {
    float* to = Floats(g.out) + token * g.cols;
    bool begun = false;
    for (int64_t pair = token * g.per_token; pair < (token + 1) * g.per_token; ++pair) {
      if (g.places[pair] < 0) continue;
      const float* from = Floats(g.x) + g.places[pair] * g.cols;
      const float weight = g.weights == nullptr ? 1.0F : g.weights[pair];
      ForEachVector(
          g.cols, [&](int64_t c, auto access) __attribute__((always_inline)) {
            const Vector term = access.load(from + c) * weight;
            access.store(to + c, begun ? access.load(to + c) + term : term);
          });
      begun = true;
    }
    if (!begun) memset(to, 0, static_cast<size_t>(g.cols) * sizeof(float));
  }
}

// Products of fp32 values are exact in fp64, where they are summed.
FT_INLINE float DotOf(int64_t n, const float* a, const float* b) {
  DoubleVector low = {};
  DoubleVector high = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Vector x = Load(a + i);
    const Vector y = Load(b + i);
    low += LowDoubles(x) * LowDoubles(y);
    high += HighDoubles(x) * HighDoubles(y);
  }
  double total = SumLanes(low + high);
  for (; i < n; ++i) total += double{a[i]} * double{b[i]};
  return static_cast<float>(total);
}

// Gradient of each routing weight: dy of the token times the expert's output row. 0 for a dropped
// pair.
inline void ExpertDots(const FtExpertDots& g) {
  for (int64_t pair = 0; pair < g.tokens * g.per_token; ++pair) {
    const int64_t place = g.places[pair];
    g.out[pair] = place < 0 ? 0.0F
                            : DotOf(g.cols, Floats(g.dy) + pair / g.per_token * g.cols,
                                    Floats(g.x) + place * g.cols);
  }
}

}  // namespace foretrain::FT_VECTOR_NAMESPACE
