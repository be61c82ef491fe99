// The result of a plan search, as tables and as JSON.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/forecast/forecasting.h"
#include "sim/search/advice/sensitivity.h"
#include "sim/search/search.h"
#include "sim/search/space/device_counts.h"

namespace foretrain {

class JsonWriter;

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
  std::string defaults;                  // DefaultsText; empty: everything was given
  std::string framework;                 // title of the one that plans are for
  std::int64_t memory_bytes = 0;         // of a device that a plan may use
};

// The plan that the report recommends: the first row's. Borrows from `result`.
const RankedPlan& RecommendedPlan(const SearchResult& result);

//   command  forecasts the recommended plan again
//   width    characters of a line of a table; 0: as many as it needs
std::string PlanReportText(const PlanReport& report, const std::string& command, int width);
// All plans, with all columns, as CSV.
std::string PlanReportCsv(const PlanReport& report);
//   add  writes further keys of the object
std::string PlanReportJson(const PlanReport& report, const std::string& command,
                           const std::function<void(JsonWriter&)>& add);

}  // namespace foretrain
