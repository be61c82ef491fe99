#include "app/report/plans/sweep_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json/json.h"
#include "base/table.h"
#include "base/text.h"
#include "base/units.h"
#include "sim/config/plan/plan_json.h"

namespace foretrain {
namespace {

constexpr double kDay = 86400;

bool HasGoal(const SweepReport& report) { return report.goal.tokens > 0; }

TrainingCost CostOf(const SweepReport& report, const SweepPoint& point) {
  return CostOfTraining(report.goal.tokens, point.tokens_per_s, point.devices, report.goal.price,
                        point.rates.rated_power_w);
}

Table TableOf(const SweepReport& report) {
  std::vector<std::string> titles;
  for (const std::string& name : report.names) titles.push_back(">" + name);
  for (const char* title : {">devices", "best plan", ">step time", ">tokens/s", ">tokens/s/device",
                            ">FLOP/s/device", ">MFU", ">device memory"}) {
    titles.emplace_back(title);
  }
  if (HasGoal(report)) titles.emplace_back(">training time");
  if (HasGoal(report) && report.goal.price > 0) titles.emplace_back(">training cost");
  Table table(titles);
  for (const SweepPoint& point : report.points) {
    std::vector<std::string> cells = point.values;
    cells.push_back(point.devices > 0 ? std::to_string(point.devices) : "");
    if (!point.best) {
      cells.push_back(point.why);
      table.AddRow(std::move(cells));
      continue;
    }
    const DeviceRates& rates = point.rates;
    cells.insert(cells.end(), {Describe(point.best->plan), FormatSeconds(point.best->step_s),
                               FormatSi(point.tokens_per_s, ""), FormatSi(rates.tokens_per_s, ""),
                               FormatFlops(rates.flop_per_s),
                               FormatPercent(rates.flop_per_s / rates.peak_flop_per_s),
                               FormatBytes(point.best->device.Total())});
    const TrainingCost cost = CostOf(report, point);
    if (HasGoal(report)) cells.push_back(fmt::format("{:.1f} days", cost.seconds / kDay));
    if (HasGoal(report) && report.goal.price > 0) cells.push_back(FormatSi(cost.money, ""));
    table.AddRow(std::move(cells));
  }
  table.DropFirst({"FLOP/s/device", "step time", "tokens/s"});
  table.Wrap("best plan");
  return table;
}

}  // namespace

std::string SweepText(const SweepReport& report, int width) {
  return report.title + "\n\n" + TableOf(report).Text(0, width);
}

std::string SweepCsv(const SweepReport& report) { return TableOf(report).Csv(); }

std::string SweepJson(const SweepReport& report) {
  JsonWriter json;
  json.BeginObject().Field("schema", 1).Field("title", report.title).Name("points").BeginArray();
  for (const SweepPoint& point : report.points) {
    json.BeginObject().Name("options").BeginObject();
    for (std::size_t i = 0; i < report.names.size(); ++i) {
      json.Field(report.names[i], point.values[i]);
    }
    json.EndObject().Field("devices", point.devices).Field("fits", point.best.has_value());
    if (point.best) {
      const RankedPlan& best = *point.best;
      json.Field("plan", Describe(best.plan)).Field("step_time_s", best.step_s);
      json.Field("step_time_low_s", best.low_s).Field("step_time_high_s", best.high_s);
      json.Field("tokens_per_s", point.tokens_per_s);
      json.Field("mfu", point.rates.flop_per_s / point.rates.peak_flop_per_s);
      WriteDeviceRates(json, point.rates);
      json.Field("device_memory_gib", GibFromBytes(best.device.Total()));
      if (HasGoal(report)) {
        const TrainingCost cost = CostOf(report, point);
        json.Field("training_time_s", cost.seconds).Field("training_cost", cost.money);
        json.Field("training_energy_j", cost.energy_j);
      }
      json.Name("plan_options");
      WriteJson(json, best.plan, WrittenFields::kAll);
    } else {
      json.Field("why", point.why);
    }
    json.EndObject();
  }
  return json.EndArray().EndObject().Take();
}

}  // namespace foretrain
