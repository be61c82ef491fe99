// Shared parts of forward and backward attention: visibility of keys, scratch buffers and copies of
// blocks.
#pragma once

#include <stdint.h>

#include "kernels/cpu/scratch.h"
#include "kernels/cpu/vector/simd.h"

namespace foretrain::FT_VECTOR_NAMESPACE {

// Hands out consecutive parts of the scratch, each followed by a gap for overhanging vectors.
class ScratchParts {
 public:
  explicit ScratchParts(float* at) : at_(at) {}
  FT_INLINE float* Take(int64_t floats) {
    float* part = at_;
    at_ += RoundUp(floats, kScratchGap) + kScratchGap;
    return part;
  }

 private:
  float* at_;
};

// to[r][0, width) = from[r * stride + c], 0 for c in [columns, width).
FT_INLINE void CopyRows(const float* from, int64_t stride, int64_t rows, int64_t columns, float* to,
                        int64_t width) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = from + r * stride;
    float* out = to + r * width;
    ForEachVector(
        columns, [&](int64_t c, auto access)
                     __attribute__((always_inline)) { Store(out + c, access.load(in + c)); });
  }
}

// to[c * width + r] = from[r * stride + c] * scale for r in [0, rows), c in [0, columns); 0 for r
// in [rows, width). Transposes kLanes x kLanes squares in registers.
FT_INLINE void CopyTransposed(const float* from, int64_t stride, int64_t rows, int64_t columns,
                              float scale, float* to, int64_t width) {
  for (int64_t r = 0; r < width; r += kLanes) {
    for (int64_t c = 0; c < columns; c += kLanes) {
      const int64_t wide = Least(kLanes, columns - c);
      Vector square[kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) {
        square[i] = r + i < rows ? LoadPart(from + (r + i) * stride + c, wide) * scale : Vector{};
      }
      Transpose(square);
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) {
        if (i < wide) {
          Store(to + (c + i) * width + r, square[i]);
        }
      }
    }
  }
}

// Scale of the scores; a given scale of 0 means 1 / sqrt(head_dim).
FT_INLINE float ScoreScale(float scale, int64_t head_dim) {
  return scale > 0.0F ? scale : 1.0F / __builtin_sqrtf(static_cast<float>(head_dim));
}

// Elements of a head of v and out.
template <class Arguments>
FT_INLINE int64_t ValueDim(const Arguments& g) {
  return g.value_dim > 0 ? g.value_dim : g.head_dim;
}

// Transforms a score, in base 2, before the softmax: soft cap, then a bias by distance.
struct Bend {
  float cap;          // 0: none
  float slope;        // ALiBi: subtracted once per position between key and query
  const float* bias;  // learned biases of the head; bias[key - query], by positions; null: none
  float* bias_grad;   // laid out like `bias`; null: not wanted

  FT_INLINE bool IsStraight() const { return cap == 0.0F && slope == 0.0F && bias == nullptr; }
  // `distances` are query position minus key position, per lane. Sets `share` to the derivative of
  // the capped score; leaves it alone without a cap.
  FT_INLINE Vector Of(Vector score, Vector distances, Vector& share) const {
    if (cap > 0.0F) {
      const Vector tanh = 1.0F - 2.0F / (1.0F + Exp2(score * (2.0F * kLog2E / cap)));
      share = 1.0F - tanh * tanh;
      score = tanh * cap;
    }
    return score - distances * slope;
  }
};

// ALiBi slope of `head`, with i = head + 1: 2^(-8 i / n) if n heads are a power of 2. Otherwise,
// with p the largest power of 2 below n, it takes p's slopes, then every second slope of 2 p (Press
// et al. 2022, s. 3).
FT_INLINE float AlibiSlope(int64_t heads, int64_t head) {
  int64_t power = 1;
  while (power * 2 <= heads) {
    power *= 2;
  }
  const double step =
      head < power ? static_cast<double>(head + 1) / static_cast<double>(power)
                   : static_cast<double>(2 * (head - power) + 1) / static_cast<double>(2 * power);
  return static_cast<float>(__builtin_exp2(-8.0 * step));
}

// Cap and slope in base 2, like the scores.
template <class Arguments>
FT_INLINE Bend BendOf(const Arguments& g, int64_t head) {
  const float slope = g.alibi_heads > 0 ? AlibiSlope(g.alibi_heads, g.first_head + head) : 0.0F;
  Bend bend{g.softcap * kLog2E, slope * kLog2E, nullptr, nullptr};
  if constexpr (requires { g.bias; }) {
    const int64_t zero = head * g.bias_stride + g.bias_zero;
    if (g.bias != nullptr) {
      bend.bias = g.bias + zero;
    }
    if constexpr (requires { g.bias_grad; }) {
      if (g.bias_grad != nullptr) {
        bend.bias_grad = g.bias_grad + zero;
      }
    }
  }
  return bend;
}

// Biases in base 2 of `count` queries, one a lane, for one key; `from` is that of the first query,
// and later ones lie before it. Lanes past them are 0.
FT_INLINE Vector BiasOfQueries(const float* from, int64_t count) {
  Vector bias = {};
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    if (i < count) {
      bias[i] = from[-i];
    }
  }
  return bias * kLog2E;
}

// Lanes hold first, first + step, first + 2 step, ...
FT_INLINE Vector Progression(int64_t first, float step) {
  return __builtin_convertvector(LaneNumbers(), Vector) * step + static_cast<float>(first);
}

// Visibility of a block of keys for a block of queries. Query i sees key j if i + ahead - window <
// j <= i + ahead.
struct View {
  int64_t queries, keys;
  int64_t ahead;      // position of the first query minus that of the first key
  int64_t window;     // from WindowOf
  int64_t begin = 0;  // first key of the queries' document, if it begins among these keys

  // Query i sees keys [FirstOf(i), KeysOf(i)), counted from the first key of the block.
  FT_INLINE int64_t KeysOf(int64_t query) const { return Clamp(query + ahead + 1, 0, keys); }
  FT_INLINE int64_t FirstOf(int64_t query) const {
    return Clamp(query + ahead + 1 - window, begin, keys);
  }
  // Number of leading queries of the block that may see key `key` or a later one.
  FT_INLINE int64_t QueriesOf(int64_t key) const { return Clamp(key - ahead + window, 0, queries); }
};

// A document of a sample, or the whole sample: rows [row, row + length), which begin at position
// `first` of the sample.
struct Document {
  int64_t sample, first, row, length;
};

// The document that begins at position `first` of a sample. It ends where a later one begins.
template <class Arguments>
FT_INLINE Document DocumentAt(const Arguments& g, int64_t sample, int64_t first) {
  const int64_t row = sample * g.sequence;
  int64_t end = g.sequence;
  if (g.document_starts != nullptr) {
    end = first + 1;
    while (end < g.sequence && g.document_starts[row + end] <= first) {
      ++end;
    }
  }
  return {sample, first, row + first, end - first};
}

// Number of keys that a query sees at most; 2^40, past all positions, if there is no window.
FT_INLINE int64_t WindowOf(int64_t window) {
  constexpr int64_t kAll = int64_t{1} << 40;
  return window > 0 && window < kAll ? window : kAll;
}

}  // namespace foretrain::FT_VECTOR_NAMESPACE
