// The answer of `check`: findings about a launch file, and what a log says against its forecast.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "sim/check/lint.h"
#include "sim/check/run_causes.h"

namespace foretrain {

struct CheckReport {
  std::string plan;               // Describe(plan), with model and cluster; empty: none exists
  std::string assumed;            // values that were filled in, for people
  std::string rates;              // where they come from
  std::vector<Finding> findings;  // most severe first
  std::optional<TrainerLog> log;  // with --log
  std::optional<RunCheck> run;    // of the log
  std::vector<LogDifference> differences;
};

// For people.
//   width  characters of a line; 0: as many as a table needs
std::string CheckText(const CheckReport& report, int width);

// Members of a JSON object: `findings`, and with a log `log`, `verdict`, `causes` and times.
void WriteCheck(JsonWriter& json, const CheckReport& report);

}  // namespace foretrain
