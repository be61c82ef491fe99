#include "traces/metrics/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace foretrain {
namespace {

// Linear interpolation between the sorted neighbours of position quantile * (n - 1).
double QuantileOf(std::span<const double> sorted, double quantile) {
  const double place = quantile * static_cast<double>(sorted.size() - 1);
  const double below = std::floor(place);
  const auto index = static_cast<std::size_t>(below);
  if (index + 1 >= sorted.size()) return sorted.back();
  return sorted[index] + (place - below) * (sorted[index + 1] - sorted[index]);
}

}  // namespace

Statistics StatisticsOf(std::span<const double> values) {
  Statistics result;
  if (values.empty()) return result;
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  result.count = static_cast<std::int64_t>(sorted.size());
  result.median = QuantileOf(sorted, 0.5);
  result.mean =
      std::accumulate(sorted.begin(), sorted.end(), 0.0) / static_cast<double>(sorted.size());
  result.min = sorted.front();
  result.max = sorted.back();
  if (result.median != 0.0) {
    result.spread = (QuantileOf(sorted, 0.75) - QuantileOf(sorted, 0.25)) / result.median;
  }
  return result;
}

std::optional<double> Utilisation(double flops, double step_s, double peak_flop_per_s) {
  if (!(flops > 0.0) || !(step_s > 0.0) || !(peak_flop_per_s > 0.0)) return std::nullopt;
  return flops / step_s / peak_flop_per_s;
}

}  // namespace foretrain
