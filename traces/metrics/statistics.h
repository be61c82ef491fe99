// Medians, spreads and utilization of steps.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace foretrain {

struct Statistics {
  std::int64_t count = 0;
  double median = 0.0;  // mean of the middle two if the count is even
  double mean = 0.0;
  double min = 0.0;
  double max = 0.0;
  double spread = 0.0;  // (third quartile - first quartile) / median; 0 if the median is 0
};

// Statistics of `values`, all finite; zeros if there are none. Quartiles are interpolated linearly
// between sorted values, with the minimum at 0 and the maximum at 1. O(n log n).
Statistics StatisticsOf(std::span<const double> values);

// Fraction of the peak rate that a step reaches. MFU counts the model's flops (causal attention as
// half, logits included, embedding not); HFU adds recomputation. `nullopt` if an input is not
// positive.
//
//   flops            flops of one step over all ranks
//   step_s           seconds of a step
//   peak_flop_per_s  of all devices together
std::optional<double> Utilisation(double flops, double step_s, double peak_flop_per_s);

}  // namespace foretrain
