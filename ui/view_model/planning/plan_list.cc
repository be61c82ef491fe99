#include "ui/view_model/planning/plan_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/numeric/digits_apart.h"
#include "base/units.h"
#include "sim/config/plan/plan_fields.h"
#include "sim/search/space/device_counts.h"
#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

std::int64_t MemoryOf(const FoundPlan& plan) { return plan.ranked.device.Total(); }

// Sort key of a numeric column; text columns are compared as text.
double KeyOf(const FoundPlans& found, std::size_t number, PlanColumn column) {
  const FoundPlan& plan = found.plans[number];
  switch (column) {
    case PlanColumn::kPlan:
    case PlanColumn::kBet:
      break;
    case PlanColumn::kStep:
      return plan.ranked.step_s;
    case PlanColumn::kInterval:
      return plan.ranked.high_s;
    case PlanColumn::kThroughput:
      return plan.tokens_per_s;
    case PlanColumn::kMfu:
      return plan.mfu;
    case PlanColumn::kMemory:
      return static_cast<double>(MemoryOf(plan));
    case PlanColumn::kHeadroom:
      return HeadroomOf(*found.request, plan.ranked.device);
    case PlanColumn::kHost:
      return static_cast<double>(plan.ranked.host_bytes);
    case PlanColumn::kCost:
      return CostOfTokens(plan, 1);
  }
  return 0;
}

// Widens an axis by a twelfth of its range on both sides.
void Widen(double& low, double& high) {
  const double margin = std::max((high - low) / 12, std::abs(high) * 0.02);
  low = std::max(0.0, low - margin);
  high += margin > 0 ? margin : 1.0;
}

// Extends the axes to include a mark.
void Hold(double memory, double rate, PlanScatter& out) {
  out.low_memory = std::min(out.low_memory, memory);
  out.high_memory = std::max(out.high_memory, memory);
  out.low_rate = std::min(out.low_rate, rate);
  out.high_rate = std::max(out.high_rate, rate);
}

// The change is relative to the first value; empty if that is 0 or both are equal.
ComparedLine Line(std::string name, double first, double second, std::string first_text,
                  std::string second_text) {
  ComparedLine line{std::move(name), std::move(first_text), std::move(second_text), {}, 0};
  if (first != 0 && first != second) {
    line.change = SignedPercent(second / first - 1);
    line.sign = second > first ? 1 : -1;
  }
  return line;
}

ComparedLine Seconds(std::string name, double first, double second) {
  std::vector<std::string> texts = SecondsApart(std::array<double, 2>{first, second});
  return Line(std::move(name), first, second, std::move(texts[0]), std::move(texts[1]));
}
ComparedLine Bytes(std::string name, std::int64_t first, std::int64_t second) {
  std::vector<std::string> texts = BytesApart(std::array<std::int64_t, 2>{first, second});
  return Line(std::move(name), static_cast<double>(first), static_cast<double>(second),
              std::move(texts[0]), std::move(texts[1]));
}

void AddWords(std::string name, const std::string& first, const std::string& second,
              std::vector<ComparedLine>& lines) {
  if (first != second) lines.push_back({std::move(name), first, second, {}, 0});
}

}  // namespace

std::string_view Title(PlanColumn column) {
  constexpr std::array<std::string_view, kPlanColumnCount> kTitles = {
      "plan",     "step", "90 % interval",       "tokens/s",       "MFU", "memory",
      "headroom", "host", "cost of 10^9 tokens", "depends most on"};
  return kTitles[static_cast<std::size_t>(column)];
}

bool IsNumber(PlanColumn column) {
  return column != PlanColumn::kPlan && column != PlanColumn::kBet;
}

// Reverses the comparison for descending order, so that equal plans keep the order in which they
// were found.
std::vector<std::size_t> Sorted(const FoundPlans& found, const PlanOrder& order) {
  std::vector<std::size_t> numbers(found.plans.size());
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  const auto less = [&](std::size_t a, std::size_t b) {
    if (IsNumber(order.by)) return KeyOf(found, a, order.by) < KeyOf(found, b, order.by);
    return Cell(found, a, order.by) < Cell(found, b, order.by);
  };
  std::stable_sort(numbers.begin(), numbers.end(), [&](std::size_t a, std::size_t b) {
    return order.descending ? less(b, a) : less(a, b);
  });
  return numbers;
}

double CostOfTokens(const FoundPlan& plan, double price) {
  constexpr double kTokens = 1e9;
  if (plan.tokens_per_s <= 0) return 0;
  return CostOfTraining(kTokens, plan.tokens_per_s, plan.ranked.plan.World(), price, 0).money;
}

std::string Cell(const FoundPlans& found, std::size_t number, PlanColumn column, double price) {
  const FoundPlan& plan = found.plans[number];
  const RankedPlan& ranked = plan.ranked;
  switch (column) {
    case PlanColumn::kPlan:
      return Describe(ranked.plan);
    case PlanColumn::kStep:
      return FormatSeconds(ranked.step_s);
    case PlanColumn::kInterval:
      return FormatSeconds(ranked.low_s) + " to " + FormatSeconds(ranked.high_s);
    case PlanColumn::kThroughput:
      return FormatSi(plan.tokens_per_s, "");
    case PlanColumn::kMfu:
      return FormatPercent(plan.mfu);
    case PlanColumn::kMemory:
      return FormatBytes(MemoryOf(plan));
    case PlanColumn::kHeadroom:
      return FormatPercent(HeadroomOf(*found.request, ranked.device));
    case PlanColumn::kHost:
      return ranked.host_bytes > 0 ? FormatBytes(ranked.host_bytes) : "";
    case PlanColumn::kCost:
      return price > 0 ? FormatSi(CostOfTokens(plan, price), "") : "";
    case PlanColumn::kBet:
      return ranked.depends_most_on.substr(
          0, ranked.depends_most_on.find(':'));  // the details panel shows the rest
  }
  return {};
}

double HeadroomOf(const PlanRequest& request, const DeviceUse& use) {
  const auto has = static_cast<double>(request.cluster.device.memory_bytes);
  return has > 0 ? 1 - static_cast<double>(use.Total()) / has : 0;
}

// A run needs both throughput and peak memory for a position in the plot, and its model to be
// comparable.
std::vector<MeasuredPlan> MeasuredPlansOf(const std::vector<RunInfo>& runs,
                                          const std::map<RunId, std::string>& models) {
  std::vector<MeasuredPlan> plans;
  for (const RunInfo& run : runs) {
    const auto model = models.find(run.id);
    if (run.kind != RunKind::kMeasured || model == models.end()) continue;
    const std::optional<double> rate = run.Metric("tokens_per_s");
    const std::optional<double> bytes = run.Metric("peak_device_bytes");
    if (!rate || !bytes) continue;
    MeasuredPlan plan{.label = fmt::format("run {}: {}", run.id, run.label),
                      .model = model->second,
                      .tokens_per_s = *rate,
                      .memory_bytes = static_cast<std::int64_t>(*bytes)};
    // A measured run names its forecast, which must be in the same store.
    const auto forecast = std::find_if(runs.begin(), runs.end(), [&run](const RunInfo& other) {
      return run.forecast && other.id == *run.forecast;
    });
    if (forecast != runs.end()) {
      const std::optional<double> forecast_bytes = forecast->Metric("peak_device_bytes");
      plan.forecast_tokens_per_s = forecast->Metric("tokens_per_s").value_or(0);
      plan.forecast_memory_bytes = static_cast<std::int64_t>(forecast_bytes.value_or(0));
    }
    plans.push_back(std::move(plan));
  }
  return plans;
}

void KeepFront(const FoundPlans& found, std::vector<TrainerFront>& fronts) {
  const PlanSetup& setup = found.request->setup;
  std::erase_if(fronts, [&setup](const TrainerFront& front) {
    PlanSetup same = front.setup;
    same.trainer = setup.trainer;
    return same != setup || front.setup.trainer == setup.trainer;
  });
  TrainerFront front{setup};
  for (const FoundPlan& plan : found.plans) {
    if (!plan.ranked.pareto) continue;
    front.points.emplace_back(static_cast<double>(MemoryOf(plan)), plan.tokens_per_s);
  }
  std::sort(front.points.begin(), front.points.end());
  fronts.push_back(std::move(front));
}

// The axes also cover the measured runs and their forecasts, so that all marks lie inside the plot.
PlanScatter ScatterOf(const FoundPlans& found, const std::vector<MeasuredPlan>& measured,
                      const std::vector<TrainerFront>& fronts) {
  PlanScatter out;
  out.device_bytes = static_cast<double>(found.request->cluster.device.memory_bytes);
  out.low_memory = out.low_rate = 1e300;
  out.high_memory = out.high_rate = 0;
  for (std::size_t i = 0; i < found.plans.size(); ++i) {
    const FoundPlan& plan = found.plans[i];
    const auto memory = static_cast<double>(MemoryOf(plan));
    out.points.push_back({memory, plan.tokens_per_s, plan.ranked.pareto, plan.ranked.tied});
    if (plan.ranked.pareto) out.front.push_back(i);
    Hold(memory, plan.tokens_per_s, out);
  }
  std::stable_sort(out.front.begin(), out.front.end(), [&](std::size_t a, std::size_t b) {
    return out.points[a].memory_bytes < out.points[b].memory_bytes;
  });
  for (const MeasuredPlan& run : measured) {
    if (run.model != found.request->model.name || run.tokens_per_s <= 0) continue;
    out.measured.push_back(run);
    Hold(static_cast<double>(run.memory_bytes), run.tokens_per_s, out);
    if (run.forecast_tokens_per_s <= 0) continue;
    Hold(static_cast<double>(run.forecast_memory_bytes), run.forecast_tokens_per_s, out);
  }
  for (const TrainerFront& front : fronts) {
    if (front.setup.trainer == found.request->setup.trainer) continue;
    for (const auto& [memory, rate] : front.points) Hold(memory, rate, out);
    out.others.push_back(front);
  }
  if (out.low_rate > out.high_rate) out.low_memory = out.low_rate = 0;  // no marks at all
  Widen(out.low_memory, out.high_memory);
  Widen(out.low_rate, out.high_rate);
  return out;
}

// Linear search: a search result has a few dozen plans. Distances are measured in widths of the
// plot.
std::optional<std::size_t> NearestPlan(const PlanScatter& scatter, double x, double y,
                                       double aspect, double reach) {
  std::optional<std::size_t> nearest;
  double min = reach;
  for (std::size_t i = 0; i < scatter.points.size(); ++i) {
    const PlanPoint& point = scatter.points[i];
    const double dx = scatter.X(point.memory_bytes) - x;
    const double dy = (scatter.Y(point.tokens_per_s) - y) / aspect;
    const double distance = std::hypot(dx, dy);
    if (distance > min || (nearest && distance == min)) continue;
    min = distance;
    nearest = i;
  }
  return nearest;
}

std::string KeptPlan::Title() const {
  return request->model.name + " " + Describe(plan.ranked.plan);
}

// Results are always listed; fields only if their texts differ.
PlanComparison ComparePlans(const KeptPlan& first, const KeptPlan& second, double price) {
  PlanComparison out;
  const RankedPlan& a = first.plan.ranked;
  const RankedPlan& b = second.plan.ranked;
  out.metrics.push_back(Seconds("step time", a.step_s, b.step_s));
  out.metrics.push_back(Line("tokens/s", first.plan.tokens_per_s, second.plan.tokens_per_s,
                             FormatSi(first.plan.tokens_per_s, ""),
                             FormatSi(second.plan.tokens_per_s, "")));
  out.metrics.push_back(Line("MFU", first.plan.mfu, second.plan.mfu, FormatPercent(first.plan.mfu),
                             FormatPercent(second.plan.mfu)));
  if (price > 0) {
    const double cost_a = CostOfTokens(first.plan, price),
                 cost_b = CostOfTokens(second.plan, price);
    out.metrics.push_back(
        Line("cost of 10^9 tokens", cost_a, cost_b, FormatSi(cost_a, ""), FormatSi(cost_b, "")));
  }
  out.metrics.push_back(Bytes("device memory", a.device.Total(), b.device.Total()));
  out.metrics.push_back(Bytes("host memory", a.host_bytes, b.host_bytes));
  const auto parts_a = PartsOfStep(a.estimate.parts), parts_b = PartsOfStep(b.estimate.parts);
  for (std::size_t i = 0; i < parts_a.size(); ++i) {
    out.metrics.push_back(
        Seconds(std::string(parts_a[i].first), parts_a[i].second, parts_b[i].second));
  }
  AddWords("model", first.request->model.name, second.request->model.name, out.fields);
  AddWords("cluster", first.request->cluster.name, second.request->cluster.name, out.fields);
  for (const HardwareField& field : HardwareFields()) {
    const auto text = [&](const KeptPlan& plan) {
      return fmt::format("{:.4g} {}", field.In(plan.request->cluster), field.unit);
    };
    AddWords(std::string(field.name), text(first), text(second), out.fields);
  }
  for (const PlanField& field : PlanFields()) {
    AddWords(std::string(field.name), TextOf(field, a.plan), TextOf(field, b.plan), out.fields);
  }
  return out;
}

std::string CountText(std::int64_t count) {
  return count < 10'000 ? std::to_string(count) : FormatSi(static_cast<double>(count), "");
}

std::vector<std::pair<std::string_view, double>> PartsOfStep(const StepParts& parts) {
  return {{"compute", parts.compute_s},
          {"communication", parts.communication_s},
          {"bubble", parts.bubble_s},
          {"gradient sums", parts.sums_s},
          {"update", parts.update_s}};
}

}  // namespace foretrain::ui
