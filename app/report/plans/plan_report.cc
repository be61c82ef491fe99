#include "app/report/plans/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "app/report/plans/device_rates.h"
#include "app/report/plans/plan_rows.h"
#include "app/report/report.h"
#include "base/json/json.h"
#include "base/table.h"
#include "base/text.h"
#include "base/units.h"
#include "sim/config/plan/plan_json.h"

namespace foretrain {
namespace {

constexpr double kDay = 86400;
constexpr std::size_t kShown = 6;  // rows of the table, apart from the Pareto front
constexpr int kMaxTiedShown = 3;
constexpr double kWorthTrying = 1.1;  // of the first plan's step; slower ones are no alternatives

double TokensOfStep(const PlanReport& report) {
  return static_cast<double>(report.space->base.global_batch * report.space->base.sequence);
}
double TokensPerSecond(const PlanReport& report, double step_s) {
  return TokensOfStep(report) / step_s;
}
// The training of the goal at a rate of tokens on a number of devices.
TrainingCost CostOf(const PlanReport& report, double tokens_per_s, int devices) {
  return CostOfTraining(report.goal.tokens, tokens_per_s, devices, report.goal.price,
                        report.context->cluster.device.power_w);
}
// Model FLOPs of a step over the peak of all devices.
double MfuOf(const DeviceRates& rates) { return rates.flop_per_s / rates.peak_flop_per_s; }

// "93 %": probability that the best plan is faster than this one.
std::string FirstIsFasterText(const RankedPlan& plan, bool best) {
  return best ? "" : fmt::format("{:.0f} %", 100 * plan.first_is_faster);
}

// Words of Describe that follow the degrees, the schedule and the micro-batches.
std::vector<std::string> WordsOf(const Plan& plan) {
  constexpr std::size_t kAlwaysShown = 6;  // "dp8 tp1 pp1 1f1b mb4 x8"
  const std::string text = Describe(plan);
  std::vector<std::string> words;
  for (const std::string_view word : Split(text, ' ')) words.emplace_back(word);
  words.erase(words.begin(),
              words.begin() + static_cast<std::ptrdiff_t>(std::min(kAlwaysShown, words.size())));
  return words;
}

// Words that all rows have, in the order of the first. A table says them once.
std::vector<std::string> CommonWords(const std::vector<PlanRow>& rows) {
  std::vector<std::string> common = WordsOf(rows.front().shown->plan);
  for (const PlanRow& row : rows) {
    const std::vector<std::string> words = WordsOf(row.shown->plan);
    std::erase_if(common, [&](const std::string& word) {
      return std::find(words.begin(), words.end(), word) == words.end();
    });
  }
  return common;
}

// Describe without the words in `common`.
std::string ShortDescription(const Plan& plan, const std::vector<std::string>& common) {
  const std::string text = Describe(plan);
  std::vector<std::string> words;
  for (const std::string_view word : Split(text, ' ')) {
    if (std::find(common.begin(), common.end(), word) == common.end()) words.emplace_back(word);
  }
  return Join(words, " ");
}

// "+3": the plans that a row stands for besides the one shown.
std::string AlikeText(const PlanRow& row) {
  return row.alike.empty() ? "" : fmt::format("+{}", row.alike.size());
}

Table PlansTable() {
  Table table({"plan", ">step time", ">low", ">high", ">tokens/s", ">tokens/s/device",
               ">FLOP/s/device", ">MFU", ">device memory", ">first is faster", ">alike", "front"});
  table.DropFirst({"tokens/s", "front", "low", "high"});
  table.Wrap("plan");
  return table;
}

std::vector<std::string> CellsOf(const PlanReport& report, const PlanRow& row,
                                 const std::string& description) {
  const RankedPlan& plan = *row.shown;
  const DeviceRates rates = DeviceRatesOf(*report.context, plan.plan, plan.step_s);
  return {description,
          FormatSeconds(plan.step_s),
          FormatSeconds(plan.low_s),
          FormatSeconds(plan.high_s),
          FormatSi(TokensPerSecond(report, plan.step_s), ""),
          FormatSi(rates.tokens_per_s, ""),
          FormatFlops(rates.flop_per_s),
          FormatPercent(MfuOf(rates)),
          FormatBytes(plan.device.Total()),
          FirstIsFasterText(plan, &plan == &RecommendedPlan(report.result)),
          AlikeText(row),
          plan.pareto ? "pareto" : ""};
}

// Shows the first rows and those of the Pareto front, and counts the others.
std::string PlansText(const PlanReport& report, int width) {
  const std::vector<PlanRow> rows = RowsOf(report.result.plans);
  const std::vector<std::string> common = CommonWords(rows);
  Table table = PlansTable();
  std::size_t left_out = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    // A plan of the front is always shown: it is the smallest for its speed.
    if (i >= kShown && !rows[i].shown->pareto) {
      ++left_out;
      continue;
    }
    table.AddRow(CellsOf(report, rows[i], ShortDescription(rows[i].shown->plan, common)));
  }
  std::string text = table.Text(0, width);
  if (!common.empty()) text += fmt::format("all of them: {}\n", fmt::join(common, " "));
  const bool folded =
      std::any_of(rows.begin(), rows.end(), [](const PlanRow& row) { return !row.alike.empty(); });
  if (folded) {
    text +=
        "alike: slower plans of the same tp, pp and ep that need about as much memory or more\n";
  }
  if (left_out > 0) {
    text +=
        fmt::format("{} slower rows that are no smaller are left out; --json has all\n", left_out);
  }
  return text;
}

// Says why a row may show more memory than a plan may use: the limit holds for what a plan needs.
std::string CachedMemoryText(const PlanReport& report) {
  std::int64_t cached = 0;
  for (const RankedPlan& plan : report.result.plans) {
    if (plan.device.Total() > report.memory_bytes) cached = std::max(cached, plan.device.cached);
  }
  if (cached == 0) return "";
  return fmt::format(
      "device memory above {}: up to {} of it are free blocks that the allocator keeps, and gives "
      "back before it fails\n",
      FormatBytes(report.memory_bytes), FormatBytes(cached));
}

// Why plans were pruned, the most frequent reason first.
std::string PrunedText(const SearchResult& result, int width) {
  if (result.rejected.empty()) return "";
  std::vector<Rejection> sorted = result.rejected;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Rejection& a, const Rejection& b) { return a.count > b.count; });
  Table table({">pruned", "because a plan"});
  std::string examples;
  for (const Rejection& rejection : sorted) {
    table.AddRow({FormatCount(rejection.count), rejection.reason});
    if (!rejection.example.empty()) examples += "  e.g. " + rejection.example + "\n";
  }
  table.Wrap("because a plan");
  return "\n" + table.Text(2, width) + examples;
}

// The plans that may be faster than the first after all, with the part of the step that each
// depends on most.
std::string TiedPlansText(const PlanReport& report) {
  std::string text;
  int shown = 0;
  for (const RankedPlan& plan : report.result.plans) {
    const bool slow = plan.step_s > kWorthTrying * report.result.plans.front().step_s;
    if (plan.depends_most_on.empty() || slow || ++shown > kMaxTiedShown) continue;
    text += "  " + Describe(plan.plan) + "\n    depends most on " + plan.depends_most_on + "\n";
  }
  // One plan alone is no choice.
  if (shown < 2) return "";
  return "\nThe forecast cannot tell which of these is the fastest. Each depends most on another "
         "part:\n" +
         text;
}

// Uses the closed form alone: it compares counts of devices, where errors of all counts go the same
// way.
std::string CountsText(const PlanReport& report, int width) {
  if (report.counts.empty()) return "";
  const TrainingGoal& goal = report.goal;
  Table table({">devices", "plan", ">step time", ">tokens/s", ">device memory", ">training time",
               ">training cost", ""});
  for (const DeviceCount& count : report.counts) {
    if (!count.best) {
      table.AddRow({std::to_string(count.devices), "nothing fits"});
      continue;
    }
    const double rate = TokensPerSecond(report, count.best->estimate.step_s);
    const TrainingCost cost = CostOf(report, rate, count.devices);
    const bool late = goal.deadline_s > 0 && cost.seconds > goal.deadline_s;
    table.AddRow({std::to_string(count.devices), Describe(count.best->plan),
                  FormatSeconds(count.best->estimate.step_s), FormatSi(rate, ""),
                  FormatBytes(count.best->estimate.memory_bytes),
                  goal.tokens > 0 ? fmt::format("{:.1f} days", cost.seconds / kDay) : "",
                  goal.tokens > 0 && goal.price > 0 ? FormatSi(cost.money, "") : "",
                  late           ? "too late"
                  : count.pareto ? "pareto"
                                 : ""});
  }
  table.Wrap("plan");
  return "\nOther numbers of devices, in closed form:\n" + table.Text(0, width);
}

// Days and cost with the best plan. With a deadline also the first number of devices of the list
// that meets it.
std::string GoalText(const PlanReport& report) {
  const TrainingGoal& goal = report.goal;
  if (goal.tokens <= 0) return "";
  const RankedPlan& best = RecommendedPlan(report.result);
  const int devices = best.plan.World();
  const TrainingCost cost = CostOf(report, TokensPerSecond(report, best.step_s), devices);
  std::string text = fmt::format("\n{} tokens on {} devices: training time {:.1f} days",
                                 FormatSi(goal.tokens, ""), devices, cost.seconds / kDay);
  if (goal.price > 0) {
    text += fmt::format(", training cost {} at {} a device and hour", FormatSi(cost.money, ""),
                        goal.price);
  }
  if (cost.energy_j > 0) {
    text += fmt::format(", at most {} at {:.0f} W a device", FormatSi(cost.energy_j / 3600, "Wh"),
                        report.context->cluster.device.power_w);
  }
  text += "\n";
  if (goal.deadline_s <= 0) return text;
  for (const DeviceCount& count : report.counts) {
    if (!count.best) continue;
    const TrainingCost other =
        CostOf(report, TokensPerSecond(report, count.best->estimate.step_s), count.devices);
    if (other.seconds > goal.deadline_s) continue;
    return text + fmt::format("within {:.1f} days: {} devices do ({:.1f} days)\n",
                              goal.deadline_s / kDay, count.devices, other.seconds / kDay);
  }
  return text + fmt::format("within {:.1f} days: none of these numbers of devices does\n",
                            goal.deadline_s / kDay);
}

// Changes each rate of the machine by itself and shows how the step time follows.
std::string SensitivityText(const PlanReport& report) {
  if (report.sensitivity.empty()) return "";
  Table table({"rate", ">10 % faster", ">10 % slower", ">twice as fast"});
  for (const Sensitivity& one : report.sensitivity) {
    table.AddRow({std::string(Name(one.resource)), fmt::format("{:+.1f} %", 100 * one.faster),
                  fmt::format("{:+.1f} %", 100 * one.slower),
                  fmt::format("{:+.1f} %", 100 * one.twice)});
  }
  return "\nStep time of the best plan with other rates, in closed form:\n" + table.Text();
}

// Both estimates of the step: simulated and closed form.
void PlanJson(const PlanReport& report, const RankedPlan& plan, JsonWriter& json) {
  const StepParts& parts = plan.estimate.parts;
  const DeviceRates rates = DeviceRatesOf(*report.context, plan.plan, plan.step_s);
  json.BeginObject().Field("plan", Describe(plan.plan));
  json.Field("dp", plan.plan.dp).Field("cp", plan.plan.cp).Field("tp", plan.plan.tp);
  json.Field("pp", plan.plan.pp).Field("ep", plan.plan.ep).Field("vpp", plan.plan.vpp);
  json.Field("micro_batch", plan.plan.micro_batch);
  json.Field("schedule", Name(plan.plan.schedule)).Field("zero", plan.plan.zero_stage);
  json.Field("rank_order", NameOfRankOrder(plan.plan.rank_order));
  json.Field("recompute", Name(plan.plan.recompute)).Field("step_time_s", plan.step_s);
  json.Field("step_time_low_s", plan.low_s).Field("step_time_high_s", plan.high_s);
  json.Field("closed_form_step_time_s", plan.estimate.step_s);
  json.Field("tokens_per_s", TokensPerSecond(report, plan.step_s)).Field("mfu", MfuOf(rates));
  WriteDeviceRates(json, rates);
  json.Field("peak_memory_gib", GibFromBytes(plan.memory.peak.total));
  json.Field("device_memory_gib", GibFromBytes(plan.device.Total()));
  json.Field("cached_memory_gib", GibFromBytes(plan.device.cached));
  json.Field("host_memory_gib", GibFromBytes(plan.host_bytes));
  json.Field("pareto", plan.pareto).Field("tied", plan.tied);
  json.Name("first_is_faster");
  &plan == &report.result.plans.front() ? json.Null() : json.Number(plan.first_is_faster);
  json.Field("depends_most_on", plan.depends_most_on);
  json.Field("recommended", &plan == &RecommendedPlan(report.result)).Name("options");
  WriteJson(json, plan.plan, WrittenFields::kAll);
  json.Name("parts").BeginObject().Field("compute_s", parts.compute_s);
  json.Field("communication_s", parts.communication_s).Field("bubble_s", parts.bubble_s);
  json.Field("gradient_reductions_s", parts.sums_s).Field("update_s", parts.update_s);
  json.EndObject();
  json.EndObject();
}

// Needs --tokens.
void WriteTraining(JsonWriter& json, const TrainingCost& cost) {
  json.Field("training_time_s", cost.seconds).Field("training_cost", cost.money);
  json.Field("training_energy_j", cost.energy_j);
}

void CountsJson(const PlanReport& report, JsonWriter& json) {
  const TrainingGoal& goal = report.goal;
  json.Name("device_counts").BeginArray();
  for (const DeviceCount& count : report.counts) {
    json.BeginObject().Field("devices", count.devices).Field("fits", count.best.has_value());
    if (count.best) {
      const double rate = TokensPerSecond(report, count.best->estimate.step_s);
      const TrainingCost cost = CostOf(report, rate, count.devices);
      json.Field("plan", Describe(count.best->plan));
      json.Field("step_time_s", count.best->estimate.step_s).Field("tokens_per_s", rate);
      json.Field("device_memory_gib", GibFromBytes(count.best->estimate.memory_bytes));
      json.Field("pareto", count.pareto);
      if (goal.tokens > 0) WriteTraining(json, cost);
    }
    json.EndObject();
  }
  json.EndArray();
}

}  // namespace

const RankedPlan& RecommendedPlan(const SearchResult& result) {
  return *RowsOf(result.plans).front().shown;
}

// From the answer to its reasons: plans, bound on the optimum, pruned plans, other device counts.
// Ends in the command to run.
std::string PlanReportText(const PlanReport& report, const std::string& command, int width) {
  const ForecastContext& context = *report.context;
  const SearchResult& result = report.result;
  const Plan& best = RecommendedPlan(result).plan;
  std::string text =
      fmt::format("{} on {}, {} samples of {} tokens a step\nrates: {}\n", context.model.name,
                  context.cluster.name, report.space->base.global_batch,
                  report.space->base.sequence, context.profile_origin);
  if (!context.cluster.assumptions.empty()) {
    text += "assumed: " + context.cluster.assumptions + "\n";
  }
  if (!report.defaults.empty()) text += "defaults: " + report.defaults + "\n";
  text += fmt::format("plans: {}; at most {} of {} on a device\n", report.framework,
                      FormatBytes(report.memory_bytes),
                      FormatBytes(context.cluster.device.memory_bytes));
  text += fmt::format("MFU: of a peak of {}\n\n", PeakText(DeviceRatesOf(context, best, 1)));
  text += PlansText(report, width) + CachedMemoryText(report) + TiedPlansText(report);
  text += fmt::format(
      "\n{} plans evaluated, {} pruned, search time {}\nlower bound of the step time {}, "
      "optimality "
      "gap of the best plan {:.1f} %\n",
      FormatCount(result.evaluated), FormatCount(result.pruned), FormatSeconds(report.seconds),
      FormatSeconds(result.bound_s), 100 * result.gap);
  text += PrunedText(result, width) + GoalText(report) + CountsText(report, width);
  return text + SensitivityText(report) + "\n" + command + "\n";
}

std::string PlanReportCsv(const PlanReport& report) {
  Table table = PlansTable();
  for (const RankedPlan& plan : report.result.plans) {
    table.AddRow(CellsOf(report, PlanRow{&plan}, Describe(plan.plan)));
  }
  return table.Csv();
}

// All plans that were found, also those that the table leaves out.
std::string PlanReportJson(const PlanReport& report, const std::string& command,
                           const std::function<void(JsonWriter&)>& add) {
  const SearchResult& result = report.result;
  JsonWriter json;
  json.BeginObject().Field("schema", 1).Field("plans_evaluated", result.evaluated);
  json.Field("plans_pruned", result.pruned).Field("search_time_s", report.seconds);
  json.Field("step_time_lower_bound_s", result.bound_s).Field("optimality_gap", result.gap);
  json.Field("command", command).Field("defaults", report.defaults);
  json.Field("assumed", report.context->cluster.assumptions).Field("for", report.framework);
  json.Field("memory_limit_gib", GibFromBytes(report.memory_bytes));
  json.Name("plans").BeginArray();
  for (const RankedPlan& plan : result.plans) PlanJson(report, plan, json);
  json.EndArray().Name("pruned_because").BeginObject();
  for (const Rejection& rejection : result.rejected) json.Field(rejection.reason, rejection.count);
  json.EndObject();
  if (!report.counts.empty()) CountsJson(report, json);
  if (report.goal.tokens > 0) {
    const RankedPlan& best = RecommendedPlan(result);
    WriteTraining(json, CostOf(report, TokensPerSecond(report, best.step_s), best.plan.World()));
  }
  if (!report.sensitivity.empty()) {
    json.Name("sensitivity").BeginObject();
    for (const Sensitivity& one : report.sensitivity) {
      json.Name(Name(one.resource)).BeginObject().Field("faster_10_percent", one.faster);
      json.Field("slower_10_percent", one.slower).Field("twice_as_fast", one.twice).EndObject();
    }
    json.EndObject();
  }
  add(json);
  return json.EndObject().Take();
}

}  // namespace foretrain
