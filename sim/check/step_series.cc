#include "sim/check/step_series.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "base/result.h"

namespace foretrain {
namespace {

constexpr double kMinSpike = 0.08;     // of the level
constexpr double kSpikeSpreads = 6;    // below-level spreads
constexpr double kMinDrift = 0.02;     // of the mean
constexpr double kWarmUp = 1.5;        // of the median
constexpr std::size_t kMinPoints = 8;  // fewer have no level of their own

double Quantile(std::vector<double> values, double share) {
  const auto at = static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

double Mean(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

int WarmUpOf(std::span<const double> seconds) {
  if (seconds.size() <= 2) return 0;
  const double limit = kWarmUp * Quantile({seconds.begin(), seconds.end()}, 0.5);
  std::size_t count = 1;
  while (count < seconds.size() / 4 && seconds[count] > limit) ++count;
  return static_cast<int>(count);
}

std::vector<double> LevelOf(std::span<const double> seconds) {
  std::vector<double> level(seconds.size());
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    // Near the ends the window is not cut but moved, so that all windows have as many points.
    const std::size_t width = std::min<std::size_t>(kWindow, seconds.size());
    const std::size_t half = width / 2;
    const std::size_t start = std::min(i < half ? 0 : i - half, seconds.size() - width);
    const std::span<const double> window = seconds.subspan(start, width);
    level[i] = Quantile({window.begin(), window.end()}, 0.25);
  }
  return level;
}

// How far points lie below their level, as a share of it: noise without stalls.
double SpreadBelow(std::span<const double> seconds, std::span<const double> level) {
  double squares = 0;
  int count = 0;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    if (seconds[i] >= level[i]) continue;
    squares += (1 - seconds[i] / level[i]) * (1 - seconds[i] / level[i]);
    ++count;
  }
  return count == 0 ? 0 : std::sqrt(squares / count);
}

// The distance that most neighbouring spikes have, give or take one; 0 if there is none.
int PeriodOf(const std::vector<int>& spikes) {
  if (spikes.size() < 3) return 0;
  std::map<int, int> gaps;
  for (std::size_t i = 1; i < spikes.size(); ++i) ++gaps[spikes[i] - spikes[i - 1]];
  const auto usual = std::max_element(
      gaps.begin(), gaps.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  int alike = 0;
  for (const auto& [gap, count] : gaps) {
    if (std::abs(gap - usual->first) <= (usual->first > 8 ? 1 : 0)) alike += count;
  }
  return 10 * alike >= 7 * static_cast<int>(spikes.size() - 1) ? usual->first : 0;
}

// The mean of the tenth of the run where it is lowest.
double LowestPart(std::span<const double> level) {
  const std::size_t width = std::max<std::size_t>(3, level.size() / 10);
  if (level.size() <= width) return Mean(level);
  double lowest = Mean(level.first(width));
  for (std::size_t i = 1; i + width <= level.size(); ++i) {
    lowest = std::min(lowest, Mean(level.subspan(i, width)));
  }
  return lowest;
}

}  // namespace

StepSeries SplitSteps(std::span<const double> seconds) {
  FT_CHECK(!seconds.empty());
  StepSeries out;
  out.points = static_cast<int>(seconds.size());
  out.warm_up = WarmUpOf(seconds);
  const std::span<const double> steady = seconds.subspan(static_cast<std::size_t>(out.warm_up));
  const std::vector<double> values(steady.begin(), steady.end());
  out.mean_s = Mean(steady);
  out.median_s = Quantile(values, 0.5);
  out.low_s = Quantile(values, 0.1);
  out.high_s = Quantile(values, 0.9);
  out.base_s = out.mean_s;
  if (steady.size() < kMinPoints) return out;
  const std::vector<double> level = LevelOf(steady);
  const double spread = SpreadBelow(steady, level);
  const double limit = 1 + std::max(kMinSpike, kSpikeSpreads * spread);
  std::vector<int> spikes;
  // A point that is no spike lies above the lower quartile by noise alone.
  double sum = 0, noise = 0;
  std::vector<double> calm;
  for (std::size_t i = 0; i < steady.size(); ++i) {
    if (steady[i] <= level[i] * limit) {
      calm.push_back(steady[i]);
      noise += steady[i] / level[i] - 1;
      continue;
    }
    spikes.push_back(static_cast<int>(i));
    sum += steady[i] - level[i];
  }
  const double over = calm.empty() ? 0 : std::max(0.0, noise / static_cast<double>(calm.size()));
  const auto count = static_cast<double>(steady.size());
  out.spikes = static_cast<int>(spikes.size());
  out.spike_every = PeriodOf(spikes);
  out.spikes_s = std::max(0.0, sum / count - over * Mean(level) * out.spikes / count);
  const double calm_s = out.mean_s - out.spikes_s;  // the mean without spikes
  const double rise = Mean(level) - LowestPart(level);
  // The lowest of many parts lies below the mean by noise too.
  const double by_chance =
      3 * spread * Mean(level) / std::sqrt(std::max(1.0, static_cast<double>(steady.size()) / 10));
  if (rise > kMinDrift * out.mean_s && rise > by_chance) out.drift_s = std::min(rise, calm_s);
  out.base_s = calm_s - out.drift_s;
  return out;
}

}  // namespace foretrain
