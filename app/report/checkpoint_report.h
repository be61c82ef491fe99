// Checkpoints in reports: their cost as forecast and as measured.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "runtime/checkpoint/saver.h"
#include "sim/cost/checkpoint_cost.h"
#include "sim/cost/goodput.h"
#include "traces/run.h"

namespace foretrain {

// The median save of a run; `nullopt` if no checkpoint was written. Bytes are those of the ranks in
// this process.
std::optional<CheckpointCost> MeasuredCost(const std::vector<SaveReport>& saves);

// "1.50 GiB, 210 ms of standstill, written in 2.10 s beside training"
std::string DescribeCost(const CheckpointCost& cost);

// {"bytes": ..., "copy_s": ..., "write_s": ...} under `name`.
void WriteCost(JsonWriter& json, const char* name, const CheckpointCost& cost);

// How the time of a job that fails is spent (sim/cost/goodput.h).
struct GoodputForecast {
  double every_s = 0;  // between two saves
  Goodput goodput;
  double best_every_s = 0;
  Goodput best;
};

// "95.1 % of the time becomes steps ..." and what the rest is.
std::string DescribeGoodput(const GoodputForecast& forecast);

// {"share": ..., "saving": ..., ...} under "goodput".
void WriteGoodput(JsonWriter& json, const GoodputForecast& forecast);

// Under the names that docs/store.md lists.
std::vector<MetricValue> MetricsOf(const CheckpointCost& cost);

// The cost that a run has under those names; `nullopt` if it has none.
std::optional<CheckpointCost> CostOf(const RunInfo& run);

}  // namespace foretrain
