#include "app/report/checkpoint_report.h"

#include <fmt/format.h>

#include "base/units.h"
#include "traces/metrics/statistics.h"

namespace foretrain {

std::optional<CheckpointCost> MeasuredCost(const std::vector<SaveReport>& saves) {
  CheckpointCost cost;
  std::vector<double> copies_s, writes_s;
  for (const SaveReport& save : saves) {
    if (save.path.empty()) continue;
    cost.bytes = save.bytes;
    copies_s.push_back(SecondsFromNs(save.copy_end_ns - save.copy_start_ns));
    writes_s.push_back(SecondsFromNs(save.write_end_ns - save.write_start_ns));
  }
  if (copies_s.empty()) return std::nullopt;
  cost.copy_s = StatisticsOf(copies_s).median;
  cost.write_s = StatisticsOf(writes_s).median;
  return cost;
}

std::string DescribeCost(const CheckpointCost& cost) {
  return FormatBytes(cost.bytes) + ", " + FormatSeconds(cost.copy_s) +
         " of standstill, written in " + FormatSeconds(cost.write_s) + " beside training";
}

void WriteCost(JsonWriter& json, const char* name, const CheckpointCost& cost) {
  json.Name(name).BeginObject().Field("bytes", cost.bytes).Field("copy_s", cost.copy_s);
  json.Field("write_s", cost.write_s).EndObject();
}

std::string DescribeGoodput(const GoodputForecast& forecast) {
  const Goodput& goodput = forecast.goodput;
  std::string text = fmt::format(
      "{} of the time becomes steps with a save each {}; saving {}, repeated {}, restarting {}",
      FormatPercent(goodput.share), FormatSeconds(forecast.every_s), FormatPercent(goodput.saving),
      FormatPercent(goodput.repeated), FormatPercent(goodput.restarting));
  if (forecast.every_s == forecast.best_every_s) return text;
  return text + fmt::format("; best: each {}, {}", FormatSeconds(forecast.best_every_s),
                            FormatPercent(forecast.best.share));
}

void WriteGoodput(JsonWriter& json, const GoodputForecast& forecast) {
  const Goodput& goodput = forecast.goodput;
  json.Name("goodput").BeginObject().Field("share", goodput.share);
  json.Field("saving", goodput.saving).Field("repeated", goodput.repeated);
  json.Field("restarting", goodput.restarting).Field("save_every_s", forecast.every_s);
  json.Field("best_share", forecast.best.share);
  json.Field("best_save_every_s", forecast.best_every_s).EndObject();
}

std::vector<MetricValue> MetricsOf(const CheckpointCost& cost) {
  return {{.name = "checkpoint_bytes", .value = static_cast<double>(cost.bytes)},
          {.name = "checkpoint_copy_s", .value = cost.copy_s},
          {.name = "checkpoint_write_s", .value = cost.write_s}};
}

std::optional<CheckpointCost> CostOf(const RunInfo& run) {
  const auto copy_s = run.Metric("checkpoint_copy_s");
  if (!copy_s) return std::nullopt;
  return CheckpointCost{static_cast<std::int64_t>(run.Metric("checkpoint_bytes").value_or(0)),
                        *copy_s, run.Metric("checkpoint_write_s").value_or(0)};
}

}  // namespace foretrain
