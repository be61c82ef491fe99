// The best plan for each combination of options: a table, CSV, JSON, and a picture.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/report/plans/device_rates.h"
#include "app/report/plans/plan_report.h"
#include "sim/search/search.h"

namespace foretrain {

// What was found for one combination.
struct SweepPoint {
  std::vector<std::string> values;  // of the varied options, in their order
  std::optional<RankedPlan> best;   // empty: nothing fits
  std::string why;                  // without a plan: the reason
  int devices = 0;
  double tokens_per_s = 0;
  DeviceRates rates;
};

struct SweepReport {
  std::string title;               // "llama3-8b on 64x8xH100"
  std::vector<std::string> names;  // of the varied options, without dashes
  std::vector<SweepPoint> points;
  TrainingGoal goal;  // tokens and price
};

//   width  characters of a line; 0: as many as it needs
std::string SweepText(const SweepReport& report, int width);
std::string SweepCsv(const SweepReport& report);
std::string SweepJson(const SweepReport& report);

// Tokens/s of a device over the first varied option as an SVG of 960 x 480 pixels, with a line for
// each combination of the others.
std::string SweepPicture(const SweepReport& report);

}  // namespace foretrain
