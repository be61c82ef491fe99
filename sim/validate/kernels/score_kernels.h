// Forecasts the rows of tables of measured kernels and scores them by device, kind and format.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/config/catalogue/catalogue.h"
#include "sim/cost/measured/kernel_profile.h"
#include "sim/cost/profile/architecture.h"
#include "sim/validate/kernels/timing_table.h"

namespace foretrain {

struct KernelPrediction {
  std::optional<double> seconds;  // of an exchange: its dispatch
  std::string reason;             // why there is no forecast; empty otherwise
  std::optional<double> combine_seconds = std::nullopt;  // of exchanges only
};

// One prediction for each row of `table`, from `profiles` and the devices of `catalogue`.
// `leave_device_out`: each row's own device counts as one without a profile. Microseconds a row.
std::vector<KernelPrediction> PredictKernels(const TimingTable& table,
                                             std::span<const KernelProfile> profiles,
                                             const Catalogue& catalogue,
                                             const std::vector<Architecture>& architectures,
                                             bool leave_device_out);

// Errors e = ln(forecast / measured) of the rows that have both.
struct KernelScore {
  std::string device;  // empty: all devices
  std::string kind, format;
  int rows = 0, forecast = 0;  // `forecast` counts rows with a forecast
  int scored = 0;              // with forecast and measurement
  double median = 0, p90 = 0;  // of |e|; 0 if nothing was scored
  double bias = 0;             // median of e; above 0: forecasts are too slow
};

// Scores by device, kind and format, in this order, then of all devices together. Exchanges count
// as two rows, of the kinds dispatch and combine.
std::vector<KernelScore> ScoreKernels(std::span<const TimingTable> tables,
                                      std::span<const std::vector<KernelPrediction>> predictions);

// The table's text with the added column forecast_ms, or forecast_share for shares of a peak, or
// forecast_dispatch_us and forecast_combine_us for exchanges. Cells without a forecast are empty.
std::string PredictedTable(const TimingTable& table, std::span<const KernelPrediction> predictions);

}  // namespace foretrain
