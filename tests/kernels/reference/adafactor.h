// Adafactor's update in fp64, written from its formulas (FtAdafactor).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace foretrain::reference {

struct AdafactorSettings {
  double lr = 1e-2;
  double weight_decay = 0;
  double clip = 1;  // factor of the gradient
};

// One tensor [rows, cols] with its moments: of rows and columns, or, if rows is 1, of the elements
// alone, in `cols`.
struct AdafactorState {
  std::size_t rows = 1;
  std::vector<double> param;
  std::vector<double> row_moments{}, col_moments{};
};

// Root mean square.
inline double SizeOf(const std::vector<double>& x) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  return std::sqrt(squares / static_cast<double>(x.size()));
}

// Update number `step`, counted from 1.
template <class Gradient>
void Adafactor(const AdafactorSettings& settings, int step, const Gradient& gradient,
               AdafactorState& state) {
  const std::size_t rows = state.rows, cols = state.param.size() / rows;
  const double rate = std::pow(step, -0.8), floor = std::pow(2.0, -23);
  state.row_moments.resize(rows > 1 ? rows : 0);
  state.col_moments.resize(cols);
  std::vector<double> row_means(rows), col_means(cols);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < cols; ++j) {
      const double g = settings.clip * double{gradient[i * cols + j]};
      row_means[i] += g * g / static_cast<double>(cols);
      col_means[j] += g * g / static_cast<double>(rows);
    }
  }
  const double size = SizeOf(state.param);
  double mean = 0;
  for (std::size_t i = 0; i < state.row_moments.size(); ++i) {
    state.row_moments[i] += rate * (row_means[i] - state.row_moments[i]);
    mean += state.row_moments[i] / static_cast<double>(rows);
  }
  for (std::size_t j = 0; j < cols; ++j) {
    state.col_moments[j] += rate * (col_means[j] - state.col_moments[j]);
  }
  std::vector<double> update(state.param.size());
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < cols; ++j) {
      const double row = rows > 1 ? state.row_moments[i] / std::max(mean, floor) : 1.0;
      const double v = std::max(row * state.col_moments[j], floor * floor);
      update[i * cols + j] = settings.clip * double{gradient[i * cols + j]} / std::sqrt(v);
    }
  }
  const double alpha = std::max(1e-3, size) * std::min(settings.lr, 1 / std::sqrt(step));
  const double divisor = std::max(1.0, SizeOf(update));
  for (std::size_t i = 0; i < update.size(); ++i) {
    state.param[i] -= settings.lr * settings.weight_decay * state.param[i];
    state.param[i] -= alpha / divisor * update[i];
  }
}

}  // namespace foretrain::reference
