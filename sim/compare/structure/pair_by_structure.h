// Pairs the kernels of a trace with the ops of a forecast. A trace has no program, but it ran the
// same work in the same order: products, attention and collectives are landmarks, and names,
// passes, layers and lengths tell what lies between them.
#pragma once

#include <cstdint>

#include "traces/timeline.h"

namespace foretrain {

struct StructuralPairs {
  std::int64_t kernels = 0;  // of the trace's step: on devices, or operators where it has none
  std::int64_t paired_kernels = 0;
  std::int64_t ops = 0;  // of the forecast's step
  std::int64_t paired_ops = 0;
  std::int64_t traced_ns = 0;  // sum of the kernels' lengths
  std::int64_t paired_ns = 0;
  std::int64_t forecast_ns = 0;  // of the compute ops of the forecast's step
  std::int64_t forecast_paired_ns = 0;
  // Compute ops of one name and pass that ran several times: their traced time, and the part of it
  // in ops within 25 % of the median of their name. Wrong pairs make it small.
  std::int64_t repeated_ns = 0;
  std::int64_t steady_ns = 0;

  // 0 where nothing was traced.
  double PairedShare() const;
  double ForecastShare() const;
  double SteadyShare() const;
  // Whether the pairs are good enough to explain a gap by them: most of the time of both sides has
  // a counterpart. Forecasts of other models pair less (PairByStructure.
  // DoesNotTrustTheForecastOfAnotherModel). The steady share tells nothing here: on a busy machine
  // right pairs are unsteady.
  static constexpr double kLeastPaired = 0.9;
  static constexpr double kLeastOfForecast = 0.8;
  bool IsTrusted() const {
    return PairedShare() >= kLeastPaired && ForecastShare() >= kLeastOfForecast;
  }

  // Adds the pairs of another step.
  StructuralPairs& operator+=(const StructuralPairs& other);
};

// Gives each paired kernel in `step` of `trace` the id of its op in step `forecast_step`, and the
// op's name; its launches on the host too. Kernels without an op keep their ids. Rank by rank, of
// the same number on both sides.
//
//   forecast  sorted, with single ops; a rank known only by whole instructions stays unpaired
//   trace     sorted, imported
StructuralPairs PairByStructure(const Timeline& forecast, int forecast_step, Timeline& trace,
                                int step);

}  // namespace foretrain
