// The result of a plan search, as tables and as JSON.
#pragma once

#include <string>
#include <vector>

#include "app/forecast/forecasting.h"
#include "sim/search/advice/sensitivity.h"
#include "sim/search/search.h"
#include "sim/search/space/device_counts.h"

namespace foretrain {

// A goal for the whole training, by which plans and numbers of devices are judged.
struct TrainingGoal {
  double tokens = 0;      // to train on; 0: not asked
  double deadline_s = 0;  // 0: none
  double price = 0;       // of a device and hour; 0: none
};

struct PlanReport {
  const ForecastContext* context = nullptr;
  const SearchSpace* space = nullptr;
  SearchResult result;
  double seconds = 0;  // that the search took
  TrainingGoal goal;
  std::vector<Sensitivity> sensitivity;  // of the best plan; empty: not asked
  std::vector<DeviceCount> counts;       // other numbers of devices; empty: not asked
};

// `command` forecasts the best plan again.
std::string PlanReportText(const PlanReport& report, const std::string& command);
std::string PlanReportJson(const PlanReport& report, const std::string& command);

// "15T", "300B", "2.5M": a count with a decimal suffix. "60d", "36h": seconds.
// Errors: kInvalidArgument, naming `option`.
Result<double> ParseTokens(const std::string& option, const std::string& text);
Result<double> ParseDuration(const std::string& option, const std::string& text);

}  // namespace foretrain
