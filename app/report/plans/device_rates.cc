#include "app/report/plans/device_rates.h"

#include <fmt/format.h>

#include "app/report/report.h"
#include "base/json/json.h"
#include "base/units.h"
#include "sim/cost/profile/derive_profile.h"
#include "sim/program/ir/precision.h"

namespace foretrain {

DeviceRates DeviceRatesOf(const ForecastContext& context, const Plan& plan, double step_s) {
  const MetricOptions options = MetricOptionsFor(context, plan, 0);
  const double device_steps_per_s = 1 / (step_s * plan.World());
  return {plan.World(),
          options.tokens_per_step * device_steps_per_s,
          options.model_flops_per_step * device_steps_per_s,
          options.peak_flop_per_s / plan.World(),
          Name(PublishedPeakFormat(context.cluster.device, ProductFormat(plan))),
          context.cluster.device.power_w};
}

std::string FormatFlops(double flop_per_s) {
  constexpr double kTera = 1e12;
  return flop_per_s >= kTera ? fmt::format("{:.1f} TFLOP/s", flop_per_s / kTera)
                             : FormatSi(flop_per_s, "FLOP/s");
}

std::string PeakText(const DeviceRates& rates) {
  return fmt::format("{} in {}", FormatFlops(rates.peak_flop_per_s), rates.peak_format);
}

std::string DeviceRatesText(const DeviceRates& rates) {
  return MetricLine("peak that MFU counts", PeakText(rates)) +
         MetricLine("tokens/s a device", FormatSi(rates.tokens_per_s, "")) +
         MetricLine("FLOP/s a device", FormatFlops(rates.flop_per_s));
}

void WriteDeviceRates(JsonWriter& json, const DeviceRates& rates) {
  json.Field("tokens_per_s_per_device", rates.tokens_per_s);
  json.Field("model_flop_per_s_per_device", rates.flop_per_s);
  json.Field("peak_flop_per_s_per_device", rates.peak_flop_per_s);
  json.Field("peak_format", rates.peak_format);
}

}  // namespace foretrain
