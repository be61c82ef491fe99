// Rotary position embedding. Angles come from a recurrence in fp64, so no table of the whole
// sequence is needed.
#pragma once

#include <stdint.h>

#include "base/device_api.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/vector/rows.h"
#include "kernels/cpu/vector/simd.h"

namespace foretrain::FT_VECTOR_NAMESPACE {

// Frequency of pair i, rescaled as in FtRopeStretch.
FT_INLINE double Stretched(const FtRope& g, int64_t i, double frequency) {
  const double factor = g.stretch == FT_ROPE_PLAIN ? 1.0 : double{g.factor};
  double kept = 0.0;  // share of the frequency that is not divided by factor
  if (g.stretch == FT_ROPE_YARN) {
    kept = 1.0 - (static_cast<double>(i) - double{g.low}) / (double{g.high} - double{g.low});
  } else if (g.stretch == FT_ROPE_LLAMA3) {
    const double turns = double{g.original} * frequency / (2.0 * 3.14159265358979323846);
    kept = (turns - double{g.low}) / (double{g.high} - double{g.low});
  }
  kept = kept < 0.0 ? 0.0 : kept > 1.0 ? 1.0 : kept;
  return frequency / factor * (1.0 - kept) + frequency * kept;
}

// cos and sin of position * frequency for each pair of a head. Each step rotates by one frequency.
// Every 512 positions sine and cosine are computed anew, so the error stays below 512 * 2^-52.
class RopeAngles {
 public:
  static constexpr int64_t kRenewal = 512;

  FT_INLINE explicit RopeAngles(const FtRope& g)
      : pairs_(g.head_dim / 2),
        inverse_(g.inverse != 0),
        grows_(g.stretch == FT_ROPE_QUERY_GROWTH),
        growth_(g.factor),
        floor_(g.original),
        magnitude_(g.magnitude > 0.0F ? double{g.magnitude} : 1.0) {
    if (grows_) return;  // which needs no frequencies
    for (int64_t i = 0; i < pairs_; ++i) {
      frequency_[i] =
          Stretched(g, i,
                    __builtin_pow(double{g.theta},
                                  -2.0 * static_cast<double>(i) / static_cast<double>(g.head_dim)));
      step_cos_[i] = __builtin_cos(frequency_[i]);
      step_sin_[i] = __builtin_sin(frequency_[i]);
    }
  }

  // Computes cosines and sines for `position`. The recurrence is used if it follows the last
  // position.
  FT_INLINE void MoveTo(int64_t position) {
    if (grows_) {
      Grow(position);
      return;
    }
    const bool renew = position % kRenewal == 0 || position != last_ + 1;
    last_ = position;
    for (int64_t i = 0; i < pairs_; ++i) {
      if (renew) {
        const double angle = static_cast<double>(position) * frequency_[i];
        cos_[i] = __builtin_cos(angle);
        sin_[i] = __builtin_sin(angle);
      } else {
        const double c = cos_[i];
        cos_[i] = c * step_cos_[i] - sin_[i] * step_sin_[i];
        sin_[i] = sin_[i] * step_cos_[i] + c * step_sin_[i];
      }
    }
    for (int64_t i = 0; i < pairs_; ++i) {
      cosine[i] = static_cast<float>(cos_[i] * magnitude_);
      sine[i] = static_cast<float>((inverse_ ? -sin_[i] : sin_[i]) * magnitude_);
    }
  }

  float cosine[kMaxHeadDim / 2];
  float sine[kMaxHeadDim / 2];

 private:
  // A product with the same factor for all pairs.
  FT_INLINE void Grow(int64_t position) {
    const double periods = __builtin_floor(static_cast<double>(position + 1) / floor_);
    const double factor = 1.0 + growth_ * __builtin_log1p(periods);
    for (int64_t i = 0; i < pairs_; ++i) {
      cosine[i] = static_cast<float>(factor);
      sine[i] = 0.0F;
    }
  }

  int64_t pairs_;
  int64_t last_ = -1;
  bool inverse_, grows_;
  double growth_, floor_;
  double magnitude_;
  double frequency_[kMaxHeadDim / 2];
  double step_cos_[kMaxHeadDim / 2], step_sin_[kMaxHeadDim / 2];
  double cos_[kMaxHeadDim / 2], sin_[kMaxHeadDim / 2];
};

// Rotates rows first_row, first_row + g.sequence, ... below `end`. A head's two halves are read in
// turn; prefetching doubles the speed from memory.
FT_INLINE void RopeRows(const FtRope& g, const RopeAngles& angles, int64_t first_row, int64_t end) {
  const int64_t half = g.head_dim / 2;
  const int64_t head_stride = g.head_stride > 0 ? g.head_stride : g.head_dim;
  for (int64_t row = first_row; row < end; row += g.sequence) {
    for (int64_t head = 0; head < g.heads; ++head) {
      float* first = Floats(g.data) + row * g.row_stride + head * head_stride;
      float* second = first + half;
      ForEachVector(
          half, [&](int64_t i, auto access) __attribute__((always_inline)) {
            PrefetchAhead(first + i);
            PrefetchAhead(second + i);
            const Vector x = access.load(first + i);
            const Vector y = access.load(second + i);
            const Vector c = access.load(angles.cosine + i);
            const Vector s = access.load(angles.sine + i);
            access.store(first + i, x * c - y * s);
            access.store(second + i, y * c + x * s);
          });
    }
  }
}

// Rows whose positions count from the start of their document. Documents differ from sample to
// sample, so angles serve one row; they follow from the position alone.
FT_INLINE void RopeOfDocuments(const FtRope& g, RopeAngles& angles) {
  for (int64_t row = 0; row < g.rows; ++row) {
    angles.MoveTo(PositionOf(g, row));
    RopeRows(g, angles, row, row + 1);
  }
}

// Positions form the outer loop, so that the angles of one position serve all samples and heads.
// Without runs the rows of a sample are positions 0, 1, 2, ...
inline void Rope(const FtRope& g) {
  RopeAngles angles(g);
  if (g.document_starts != nullptr) {
    RopeOfDocuments(g, angles);
    return;
  }
  const FtRun whole{0, 0, Least(g.sequence, g.rows)};
  const FtRun* runs = g.runs == nullptr ? &whole : g.runs;
  const int64_t count = g.runs == nullptr ? 1 : g.run_count;
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t i = 0; i < runs[r].rows; ++i) {
      angles.MoveTo(runs[r].position + i);
      RopeRows(g, angles, runs[r].row + i, g.rows);
    }
  }
}

}  // namespace foretrain::FT_VECTOR_NAMESPACE
