// The table of `foretrain bench`: named training runs, each forecast and then run for some steps on
// the same device, on made-up tokens. Leaves out the command line (app/commands/bench.cc) and
// PyTorch's runs of the same rows (tools/peers/torch_gpt.py).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/command.h"
#include "app/forecasting.h"
#include "base/device_api.h"
#include "base/json.h"
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

// Those that `names` ("a,b") lists, in its order; all where it is empty. Errors: kInvalidArgument,
// a name that no row has.
Result<std::vector<TableRow>> ChooseRows(std::vector<TableRow> rows, std::string_view names);

struct TableOptions {
  const FtDeviceApi* device = nullptr;
  int device_number = 0;  // of it; all ranks are there
  bool cuda = false;
  std::string cluster;  // of a GPU's forecasts: ranks are laid over it; empty: this machine's
  std::string device_profile;   // file; empty: that of this machine, else derived
  std::int64_t steps = 10;      // that count; one more is run before
  std::int64_t most_spans = 0;  // that a row may record; a row of more records none
};

// What one device did of a row, or was forecast to do.
struct TableFigures {
  double step_time_s = 0;
  double tokens_per_s = 0;
  double mfu = 0;
  std::optional<double> peak_memory_gib{};  // live, of the fullest rank; none: not recorded
};
struct TableResult {
  std::string name;
  std::string plan;
  std::string rates;           // what the forecast is made from
  bool shares_device = false;  // several ranks on one device: the run's time is not a cluster's
  std::optional<TableFigures> predicted;
  std::optional<TableFigures> measured;
  double last_loss = 0;
  RunId run = 0;       // in the store
  std::string failed;  // why there is no forecast or no run
};

// Forecasts and runs one row. What goes wrong stands in `failed`, so that other rows go on.
TableResult RunRow(Store& store, const TableRow& row, const TableOptions& options);

// The results, for people and as one object with `rows`.
std::string TableText(const std::vector<TableResult>& results);
std::string TableJson(const std::vector<TableResult>& results, const std::string& device);

// Prints names and plans of rows; in JSON with what PyTorch's counterpart is told of each.
Result<Exit> ListTable(const std::vector<TableRow>& rows, bool json);

// The row's shape and settings for tools/peers/torch_gpt.py: an object, or null where PyTorch has
// no counterpart there (several ranks, offload, layers that it does not write).
Result<void> WritePeer(JsonWriter& json, const TableRow& row);

}  // namespace foretrain
