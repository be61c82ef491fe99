// Checkpoints in reports: their cost as forecast and as measured.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "runtime/checkpoint/saver.h"
#include "sim/cost/checkpoint_cost.h"
#include "traces/run.h"

namespace foretrain {

// The median save of a run; `nullopt` if no checkpoint was written. Bytes are those of the ranks in
// this process.
std::optional<CheckpointCost> MeasuredCost(const std::vector<SaveReport>& saves);

// "1.50 GiB, 210 ms of standstill, written in 2.10 s beside training"
std::string DescribeCost(const CheckpointCost& cost);

// {"bytes": ..., "copy_s": ..., "write_s": ...} under `name`.
void WriteCost(JsonWriter& json, const char* name, const CheckpointCost& cost);

// Under the names that docs/store.md lists.
std::vector<MetricValue> MetricsOf(const CheckpointCost& cost);

// The cost that a run has under those names; `nullopt` if it has none.
std::optional<CheckpointCost> CostOf(const RunInfo& run);

}  // namespace foretrain
