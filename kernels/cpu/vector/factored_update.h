// Adafactor: an update whose second moment is the product of a row's and a column's. Its tensor may
// lie on several ranks in parts (FtAdafactor).
#pragma once

#include <stdint.h>

#include "base/device_api.h"
#include "kernels/cpu/vector/rows.h"
#include "kernels/cpu/vector/simd.h"
#include "kernels/cpu/vector/update.h"

namespace foretrain::FT_VECTOR_NAMESPACE {

constexpr float kFactorFloor = 0x1p-23F;    // of the mean row moment; its square: of v
constexpr double kMinParameterSize = 1e-3;  // of the root mean square that scales the step

// Sum of squares of a range; blocks of 4,096 numbers are added in fp64.
FT_INLINE double SumOfSquares(const float* x, int64_t n) {
  constexpr int64_t kBlock = 4096;
  double sum = 0.0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const float* from = x + begin;
    sum += double{SumOver(
        Least(kBlock, n - begin), [&](int64_t i, auto access) __attribute__((always_inline)) {
          const Vector value = access.load(from + i);
          return value * value;
        })};
  }
  return sum;
}

// Adds the squares of a part's gradient to those of its rows and columns, and those of its
// parameters. Columns are summed over rows in blocks (SumRows), and so are those of one row.
inline void FactorSums(const FtFactorSums& g) {
  if (Skips(nullptr, g.squared_norm)) return;
  const float factor = GradientFactor(g.squared_norm, g.max_norm, 1.0F);
  const float squared = factor * factor;
  g.param_squares[0] += static_cast<float>(SumOfSquares(Floats(g.param), g.rows * g.cols));
  for (int64_t row = 0; g.row_sums != nullptr && row < g.rows; ++row) {
    g.row_sums[row] +=
        static_cast<float>(SumOfSquares(Floats(g.grad) + row * g.cols, g.cols) * double{squared});
  }
  SumRows<4>(
      g.rows, g.cols, /*accumulate=*/true, g.col_sums, nullptr,
      [&](int64_t row, int64_t c, auto access, Vector& sum, Vector&)
          __attribute__((always_inline)) {
            const Vector value = access.load(Floats(g.grad) + row * g.cols + c);
            sum += value * value * squared;
          });
}

// moments += rate (sums / count - moments).
FT_INLINE void MoveMoments(const float* sums, int64_t numbers, int64_t count, float rate,
                           float* moments) {
  const float each = static_cast<float>(1.0 / static_cast<double>(count));
  for (int64_t i = 0; i < numbers; ++i) {
    moments[i] += rate * (sums[i] * each - moments[i]);
  }
}

// The new moments of a whole tensor, and the mean of those of its rows; 1 of a vector.
inline void FactorMoments(const FtFactorMoments& g) {
  if (Skips(nullptr, g.squared_norm)) return;
  const auto rate = static_cast<float>(__builtin_pow(static_cast<double>(g.step), -0.8));
  MoveMoments(g.col_sums, g.cols, g.rows, rate, g.moment2);
  g.row_mean[0] = 1.0F;
  if (g.moment1 == nullptr) return;
  MoveMoments(g.row_sums, g.rows, g.cols, rate, g.moment1);
  double mean = 0.0;
  for (int64_t row = 0; row < g.rows; ++row) {
    mean += double{g.moment1[row]};
  }
  g.row_mean[0] = static_cast<float>(mean / static_cast<double>(g.rows));
}

// The moment of a row over the mean of all rows'; 1 of a vector.
FT_INLINE float RowFactor(const FtAdafactor& g, int64_t row) {
  if (g.moment1 == nullptr) return 1.0F;
  const float mean = g.row_mean[0];
  return g.moment1[row] / (mean > kFactorFloor ? mean : kFactorFloor);
}

// Elements c to c + kLanes of u in a row whose moment, over the mean of all rows', is `row`.
template <class Access>
FT_INLINE Vector FactoredStep(const FtAdafactor& g, const float* grad, float row, int64_t c,
                              const Access& access) {
  const Vector v = access.load(g.moment2 + c) * row;
  const Vector floor = Set(kFactorFloor * kFactorFloor);
  return access.load(grad + c) / SquareRoot(Max(floor, v));
}

// Adds the squares of a part's update.
inline void FactorSize(const FtAdafactor& g) {
  if (Skips(nullptr, g.squared_norm)) return;
  const float factor = GradientFactor(g.squared_norm, g.max_norm, 1.0F);
  double squares = 0.0;
  for (int64_t row = 0; row < g.rows; ++row) {
    const float* grad = Floats(g.grad) + row * g.cols;
    const float scale = RowFactor(g, row);
    squares += double{SumOver(
        g.cols, [&](int64_t c, auto access) __attribute__((always_inline)) {
          const Vector u = FactoredStep(g, grad, scale, c, access);
          return u * u;
        })};
  }
  g.update_squares[0] += static_cast<float>(squares * double{factor} * double{factor});
}

// Updates a part.
inline void Adafactor(const FtAdafactor& g) {
  if (Skips(nullptr, g.squared_norm)) return;
  const auto count = static_cast<double>(g.inner), step = static_cast<double>(g.step);
  const float factor = GradientFactor(g.squared_norm, g.max_norm, 1.0F);
  const double size = __builtin_sqrt(double{g.param_squares[0]} / count);
  const double update = __builtin_sqrt(double{g.update_squares[0]} / count);
  const double rate = 1.0 / __builtin_sqrt(step);
  const double alpha = (size > kMinParameterSize ? size : kMinParameterSize) *
                       (double{g.lr} < rate ? double{g.lr} : rate);
  const auto by =
      static_cast<float>(alpha / (update > 1.0 ? update : 1.0) * static_cast<double>(factor));
  const float decay = g.decays != 0 ? g.lr * g.weight_decay : 0.0F;
  for (int64_t row = 0; row < g.rows; ++row) {
    const float* grad = Floats(g.grad) + row * g.cols;
    float* param = Floats(g.param) + row * g.cols;
    const float scale = RowFactor(g, row);
    ForEachVector(
        g.cols, [&](int64_t c, auto access) __attribute__((always_inline)) {
          const Vector p = access.load(param + c);
          access.store(param + c, (p - p * decay) - FactoredStep(g, grad, scale, c, access) * by);
        });
  }
  for (int64_t i = 0; g.noise != 0 && i < g.rows * g.cols; ++i) {
    Floats(g.param)[i] = StochasticBf16(Floats(g.param)[i], g.noise);
  }
}

}  // namespace foretrain::FT_VECTOR_NAMESPACE
