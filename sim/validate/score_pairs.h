// Scores the probability that one plan is faster than another: pairs of published runs against the
// order in which they were measured.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/learn/forecast_error.h"
#include "sim/validate/run_case.h"
#include "sim/validate/run_table.h"

namespace foretrain {

// The closed form of each row's step and its derivatives; `nullopt` for a row without a measured
// step, or with a plan that it leaves open. O(13 forecasts per row).
std::vector<std::optional<UncertainStep>> UncertainSteps(
    std::span<const PublishedRun> runs, const CaseSources& sources, int threads,
    const std::function<bool()>& cancelled = {});

// Pairs whose probability lies in [low, high).
struct PairBin {
  double low = 0, high = 0;
  int pairs = 0;
  double forecast = 0;  // mean probability that the plan with the faster forecast is faster
  double ordered = 0;   // share of pairs in which it is
};

struct PairScore {
  std::string family;  // empty: all
  int pairs = 0;
  std::vector<PairBin> bins;
};

// Pairs of rows of one family with the same model, devices, batch and sequence, of at least three
// such rows. Rows with equal measurements make no pair. The last score is that of all families.
std::vector<PairScore> ScorePairs(std::span<const PublishedRun> runs,
                                  std::span<const std::optional<UncertainStep>> steps,
                                  const std::vector<double>& covariance);

}  // namespace foretrain
