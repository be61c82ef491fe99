// Throughput of one device, in the units that papers and trainers print, and the peak that MFU
// counts against.
#pragma once

#include <string>
#include <string_view>

#include "app/forecast/forecasting.h"

namespace foretrain {

class JsonWriter;

// Rates of one device, the same on each. FLOPs are those of the model, without recomputation.
struct DeviceRates {
  int devices = 0;
  double tokens_per_s = 0;
  double flop_per_s = 0;
  double peak_flop_per_s = 0;      // denominator of MFU
  std::string_view peak_format{};  // number format of that peak: "bf16", "fp8"
  double rated_power_w = 0;        // 0: unknown
};

//   step_s  time of a step, above 0
DeviceRates DeviceRatesOf(const ForecastContext& context, const Plan& plan, double step_s);

// "405.2 TFLOP/s"; below 1 TFLOP/s three digits with a prefix.
std::string FormatFlops(double flop_per_s);

// "989.0 TFLOP/s in bf16": the peak of one device.
std::string PeakText(const DeviceRates& rates);

// Lines of metrics: tokens/s and FLOP/s a device, and the peak.
std::string DeviceRatesText(const DeviceRates& rates);

// The fields `tokens_per_s_per_device`, `model_flop_per_s_per_device`, `peak_flop_per_s_per_device`
// and `peak_format`.
void WriteDeviceRates(JsonWriter& json, const DeviceRates& rates);

}  // namespace foretrain
