// Medians, spreads and utilisation of steps. Leaves out where the figures come from.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace foretrain {

struct Statistics {
  std::int64_t count = 0;
  double median = 0.0;  // mean of the middle two where the count is even
  double mean = 0.0;
  double least = 0.0;
  double most = 0.0;
  double spread = 0.0;  // (third quartile - first quartile) / median; 0 where the median is 0
};

// Statistics of `values`, all finite; zeros where there are none. Quartiles lie on straight lines
// between the sorted values, the least at 0 and the most at 1. O(n log n).
Statistics StatisticsOf(std::span<const double> values);

// Share of the peak rate that a step's arithmetic reaches, a fraction: MFU with the model's flops
// (causal attention as half, logits counted, embedding not), HFU with what the program recomputes
// added. Nothing where a figure is not positive.
//
//   flops            of one step over all ranks
//   step_s           seconds of a step
//   peak_flop_per_s  of all devices together
std::optional<double> Utilisation(double flops, double step_s, double peak_flop_per_s);

}  // namespace foretrain
