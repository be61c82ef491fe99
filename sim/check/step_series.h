// The step times of a run, split into a steady level, its drift and single slow steps. Leaves out
// their causes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace foretrain {

// Seconds are means over the steps behind warm-up, so that they add up:
// mean_s = base_s + drift_s + spikes_s.
struct StepSeries {
  int points = 0;   // of the log, warm-up included
  int warm_up = 0;  // first points that are left out
  double mean_s = 0;
  double median_s = 0;
  double low_s = 0, high_s = 0;  // hold 80 % of the steps
  double base_s = 0;             // the fastest level that the run kept for a tenth of it
  double drift_s = 0;            // added because the level rose; 0 if it did not
  double spikes_s = 0;           // added by single slow steps
  int spikes = 0;
  int spike_every = 0;  // points between slow steps; 0: irregular
  // Share of points that are slow.
  double spike_share() const {
    return points > warm_up ? static_cast<double>(spikes) / (points - warm_up) : 0;
  }
};

// Splits `seconds`, one for each line of a log, all > 0 and not empty.
//
// Warm-up is the first point of more than two, and those after it that take over half as long again
// as the median, up to a quarter of the points. The level at a point is the lower quartile of the
// kWindow points around it: stalls only ever add time, and a loader that is too slow may hold up
// half of the steps. A point is a spike if it exceeds the level by 6 times the spread below it, and
// by 8 %. The level drifts if its mean exceeds its lowest part by more than 2 % and by more than
// its own noise. O(points * kWindow).
StepSeries SplitSteps(std::span<const double> seconds);
inline constexpr int kWindow = 21;

}  // namespace foretrain
