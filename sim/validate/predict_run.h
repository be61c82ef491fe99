// Forecasts a published run: step time in closed form, peak memory, whether it fits. Leaves out the
// comparison with what was measured (score.h).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "sim/search/forecast_interval.h"
#include "sim/validate/fit_profile.h"
#include "sim/validate/run_case.h"

namespace foretrain {

struct RunPrediction {
  double step_s = 0;
  ForecastInterval interval;    // of step_s
  double peak_gib = 0;  // of the fullest rank, as the source's figure counts it
  bool fits = false;
  Plan plan;  // what was forecast
  std::string preset;
  std::vector<std::string> open;    // fields that the row left open and a search chose
  std::vector<std::string> filled;  // as RunCase
  std::string refused;              // why there is no forecast; empty: there is one
};

// The forecast of `run`. Of the plans that it may mean, the fastest of those that fit; where none
// fits, the smallest. A row that cannot be forecast comes back with the reason in `refused`.
//
// Step time: an Evaluator on the profile that DeriveProfile makes of the device and the preset's
// system, with the constants of `fit` where there is one; nothing of the row's results. O(plans *
// blocks); safe from any thread.
RunPrediction PredictRun(const PublishedRun& run, const CaseSources& sources,
                         const ProfileFit* fit = nullptr);

}  // namespace foretrain
