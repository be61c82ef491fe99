// Adafactor: an update whose second moment is the product of a row's and a column's.
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

// moment += rate (mean of (factor g)^2 - moment), of each row and of each column. Columns are
// summed over rows in blocks (SumRows), and so are those of a vector, which is one row.
FT_INLINE void FactorMoments(const FtAdafactor& g, float factor, float rate) {
  const float squared = factor * factor;
  for (int64_t row = 0; g.rows > 1 && row < g.rows; ++row) {
    const double mean = SumOfSquares(Floats(g.grad) + row * g.cols, g.cols) * double{squared} /
                        static_cast<double>(g.cols);
    g.moment1[row] += rate * (static_cast<float>(mean) - g.moment1[row]);
  }
  for (int64_t col = 0; col < g.cols; ++col) {
    g.moment2[col] *= 1.0F - rate;
  }
  const float each = rate * squared / static_cast<float>(g.rows);
  SumRows<4>(
      g.rows, g.cols, /*accumulate=*/true, g.moment2, nullptr,
      [&](int64_t row, int64_t c, auto access, Vector& sum, Vector&)
          __attribute__((always_inline)) {
            const Vector value = access.load(Floats(g.grad) + row * g.cols + c);
            sum += value * value * each;
          });
}

// Elements c to c + kLanes of u in a row whose moment, over the mean of all rows', is `row`.
template <class Access>
FT_INLINE Vector FactoredStep(const FtAdafactor& g, const float* grad, float row, int64_t c,
                              const Access& access) {
  const Vector v = access.load(g.moment2 + c) * row;
  const Vector floor = Set(kFactorFloor * kFactorFloor);
  return access.load(grad + c) / SquareRoot(Max(floor, v));
}

// Four passes over the tensor: sizes of the parameters, moments, size of the update, update.
inline void Adafactor(const FtAdafactor& g) {
  const int64_t elements = g.rows * g.cols;
  if (elements == 0 || Skips(nullptr, g.squared_norm)) return;
  const auto count = static_cast<double>(elements), step = static_cast<double>(g.step);
  const float factor = GradientFactor(g.squared_norm, g.max_norm, 1.0F);
  const double size = __builtin_sqrt(SumOfSquares(Floats(g.param), elements) / count);
  FactorMoments(g, factor, static_cast<float>(__builtin_pow(step, -0.8)));
  double mean = 0.0;
  for (int64_t row = 0; g.rows > 1 && row < g.rows; ++row) {
    mean += double{g.moment1[row]};
  }
  mean /= static_cast<double>(g.rows);
  const float least = mean > double{kFactorFloor} ? static_cast<float>(mean) : kFactorFloor;
  const auto row_factor = [&](int64_t row) __attribute__((always_inline)) {
    return g.rows > 1 ? g.moment1[row] / least : 1.0F;
  };
  double squares = 0.0;
  for (int64_t row = 0; row < g.rows; ++row) {
    const float* grad = Floats(g.grad) + row * g.cols;
    const float scale = row_factor(row);
    squares += double{SumOver(
        g.cols, [&](int64_t c, auto access) __attribute__((always_inline)) {
          const Vector u = FactoredStep(g, grad, scale, c, access);
          return u * u;
        })};
  }
  const double update = __builtin_sqrt(squares / count) * double{factor};
  const double rate = 1.0 / __builtin_sqrt(step);
  const double alpha = (size > kMinParameterSize ? size : kMinParameterSize) *
                       (double{g.lr} < rate ? double{g.lr} : rate);
  const auto by =
      static_cast<float>(alpha / (update > 1.0 ? update : 1.0) * static_cast<double>(factor));
  const float decay = g.decays != 0 ? g.lr * g.weight_decay : 0.0F;
  for (int64_t row = 0; row < g.rows; ++row) {
    const float* grad = Floats(g.grad) + row * g.cols;
    float* param = Floats(g.param) + row * g.cols;
    const float scale = row_factor(row);
    ForEachVector(
        g.cols, [&](int64_t c, auto access) __attribute__((always_inline)) {
          const Vector p = access.load(param + c);
          access.store(param + c, (p - p * decay) - FactoredStep(g, grad, scale, c, access) * by);
        });
  }
  for (int64_t i = 0; g.noise != 0 && i < elements; ++i) {
    Floats(g.param)[i] = StochasticBf16(Floats(g.param)[i], g.noise);
  }
}

}  // namespace foretrain::FT_VECTOR_NAMESPACE
