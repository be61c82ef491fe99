// The table of `foretrain bench`: named training runs, each forecast and then run for some steps on
// the same device, on made-up tokens. Leaves out the command line (app/commands/bench.cc) and
// PyTorch's runs of the same rows (tools/peers/torch_gpt.py).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/cli/command.h"
#include "app/forecast/forecasting.h"
#include "base/device_api.h"
#include "base/json/json.h"
#include "base/result.h"
#include "traces/store.h"

namespace foretrain {

struct TableRow {
  std::string name;
  ModelFlags model;
  PlanFlags plan;
  std::int64_t budget_bytes = 0;  // of each rank; 0: the device's memory
};

// The rows for GPUs, or smaller ones of the same kinds that a CPU runs in a minute. O(rows).
std::vector<TableRow> TableRows(bool cuda);

// The rows that `names` ("a,b") lists, in its order; all rows if it is empty. Errors:
// kInvalidArgument, a name without a row.
Result<std::vector<TableRow>> ChooseRows(std::vector<TableRow> rows, std::string_view names);

struct TableOptions {
  const FtDeviceApi* device = nullptr;
  int device_number = 0;  // of the device that all ranks share
  bool cuda = false;
  std::string cluster;  // of a GPU's forecasts: ranks are laid over it; empty: this machine's
  std::string device_profile;  // file; empty: that of this machine, else derived
  std::int64_t steps = 10;     // steps that count; one more runs before them
  std::int64_t max_spans = 0;  // a row with more spans records none
};

// The metrics of a row on one device, measured or forecast.
struct TableMetrics {
  double step_time_s = 0;
  double tokens_per_s = 0;
  double mfu = 0;
  std::optional<double> peak_memory_gib{};  // live, of the fullest rank; none: not recorded
};
struct TableResult {
  std::string name;
  std::string plan;
  std::string rates;           // the source of the forecast's rates
  bool shares_device = false;  // several ranks on one device: the run's time is not a cluster's
  std::optional<TableMetrics> predicted;
  std::optional<TableMetrics> measured;
  double last_loss = 0;
  RunId run = 0;             // in the store
  std::string does_not_fit;  // the memory that the run lacks here; it has a forecast only
  std::string failed;        // why there is no forecast or no run
};

// Forecasts and runs one row. An error is stored in `failed`, so that the other rows still run.
TableResult RunRow(Store& store, const TableRow& row, const TableOptions& options);

// The results, for people and as one object with `rows`.
std::string TableText(const std::vector<TableResult>& results);
std::string TableJson(const std::vector<TableResult>& results, const std::string& device);

// Prints names and plans of rows. JSON adds the description for PyTorch's counterpart.
Result<Exit> ListTable(const std::vector<TableRow>& rows, bool json);

// The row's shape and settings for tools/peers/torch_gpt.py: an object, or null where PyTorch has
// no counterpart there (several ranks, offload, layers that it does not write).
Result<void> WritePeer(JsonWriter& json, const TableRow& row);

}  // namespace foretrain
