// Results of a search as a sortable table, as points of throughput against memory, and two pinned
// plans side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "traces/run.h"
#include "ui/view_model/planning/plan_search.h"

namespace foretrain::ui {

enum class PlanColumn : std::uint8_t {
  kPlan,
  kStep,
  kInterval,
  kThroughput,
  kMfu,
  kMemory,
  kHeadroom,
  kHost,
  kCost,
  kBet,
};
inline constexpr int kPlanColumnCount = 10;
std::string_view Title(PlanColumn column);
bool IsNumber(PlanColumn column);  // right-aligned

struct PlanOrder {
  PlanColumn by = PlanColumn::kStep;
  bool descending = false;

  bool operator==(const PlanOrder&) const = default;
};

// Indices of plans in the order of the table; the sort is stable. O(n log n).
std::vector<std::size_t> Sorted(const FoundPlans& found, const PlanOrder& order);

// `price`: of a device for one hour, in any currency; 0: unknown, and no cost is told.
std::string Cell(const FoundPlans& found, std::size_t plan, PlanColumn column, double price = 0);

// What 10^9 tokens cost at that price, on all devices of the plan.
double CostOfTokens(const FoundPlan& plan, double price);

// Share of a device's memory that the plan's fullest rank leaves free; negative if it does not fit.
double HeadroomOf(const PlanRequest& request, const DeviceUse& use);

// A measured run of a store, with its forecast if it has one.
struct MeasuredPlan {
  std::string label;  // "run 7: gpt-10m dp2 tp1 pp1"
  std::string model;  // model name
  double tokens_per_s = 0;
  std::int64_t memory_bytes = 0;     // peak of the fullest rank
  double forecast_tokens_per_s = 0;  // 0 if it has no forecast
  std::int64_t forecast_memory_bytes = 0;
};

// The measured runs of a store whose throughput and memory are known, oldest first, each with its
// forecast from the same store.
//
//   runs    of the store, with their metrics
//   models  model names by run; runs without one are left out
std::vector<MeasuredPlan> MeasuredPlansOf(const std::vector<RunInfo>& runs,
                                          const std::map<RunId, std::string>& models);

// The Pareto front of an earlier search, which differed from the present one in its trainer alone.
struct TrainerFront {
  PlanSetup setup{};
  std::vector<std::pair<double, double>> points{};  // memory and tokens/s, by ascending memory
};

// Adds the front of `found`, in place of an earlier one of the same trainer. Fronts of other
// models, machines or batches are dropped.
void KeepFront(const FoundPlans& found, std::vector<TrainerFront>& fronts);

// One mark of the scatter.
struct PlanPoint {
  double memory_bytes = 0;
  double tokens_per_s = 0;
  bool pareto = false;
  bool tied = false;
};

struct PlanScatter {
  std::vector<PlanPoint> points;           // by plan
  std::vector<std::size_t> front;          // plans of the front, by ascending memory
  std::vector<MeasuredPlan> measured;      // measured runs of the same model
  std::vector<TrainerFront> others;        // fronts of other trainers
  double low_memory = 0, high_memory = 1;  // ranges of the axes
  double low_rate = 0, high_rate = 1;
  double device_bytes = 0;

  // Position of a mark in a plot of [0, 1) x [0, 1), from the left and from the bottom.
  double X(double memory_bytes) const {
    return (memory_bytes - low_memory) / (high_memory - low_memory);
  }
  double Y(double tokens_per_s) const { return (tokens_per_s - low_rate) / (high_rate - low_rate); }
};

// The axes cover all plans, the measured runs of the same model and their forecasts, and the fronts
// of other trainers.
PlanScatter ScatterOf(const FoundPlans& found, const std::vector<MeasuredPlan>& measured,
                      const std::vector<TrainerFront>& fronts = {});

// The plan whose mark is nearest to a point of the plot; `nullopt` if none is within `reach`.
// Distances are in widths of the plot; `aspect` is its width divided by its height.
std::optional<std::size_t> NearestPlan(const PlanScatter& scatter, double x, double y,
                                       double aspect, double reach);

// A pinned plan with the request that it answers, since later searches may be for other models and
// machines.
struct KeptPlan {
  std::shared_ptr<const PlanRequest> request;  // shared with the search result
  FoundPlan plan;

  std::string Title() const;  // "llama3-8b dp8 tp1 pp1 ..."
};

// One line of a comparison of two plans.
struct ComparedLine {
  std::string name;
  std::string first;
  std::string second;
  std::string change;  // "+3.1 %": second relative to first; empty for text
  int sign = 0;        // of the change: 1, -1 or 0
};
struct PlanComparison {
  std::vector<ComparedLine> metrics;  // step, tokens/s, MFU, memory, parts of the step
  std::vector<ComparedLine> fields;   // plan options that differ, after model and machine
};
// `price`: as in Cell.
PlanComparison ComparePlans(const KeptPlan& first, const KeptPlan& second, double price = 0);

// "950" or "2.13 M".
std::string CountText(std::int64_t count);

// Parts of a plan's step for a stacked bar: names with seconds, in closed form.
std::vector<std::pair<std::string_view, double>> PartsOfStep(const StepParts& parts);

}  // namespace foretrain::ui
