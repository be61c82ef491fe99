// What a search found, as a table that can be sorted, points of throughput against memory, and two
// pinned plans side by side. Leaves out pixels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "traces/run.h"
#include "ui/view_model/plan_search.h"

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
  kBet,
};
inline constexpr int kPlanColumnCount = 9;
std::string_view Title(PlanColumn column);
bool IsNumber(PlanColumn column);  // set to the right

struct PlanOrder {
  PlanColumn by = PlanColumn::kStep;
  bool descending = false;

  bool operator==(const PlanOrder&) const = default;
};

// Numbers of plans in the order of the table; equal ones as they were found. O(n log n).
std::vector<std::size_t> Sorted(const FoundPlans& found, const PlanOrder& order);

std::string Cell(const FoundPlans& found, std::size_t plan, PlanColumn column);

// The share of a device's memory that the plan's fullest rank leaves; below 0 it does not fit.
double HeadroomOf(const PlanRequest& request, const DeviceUse& use);

// A run of a store, measured, with its forecast where it has one.
struct MeasuredPlan {
  std::string label;  // "run 7: gpt-10m dp2 tp1 pp1"
  std::string model;  // name of the model
  double tokens_per_s = 0;
  std::int64_t memory_bytes = 0;  // peak of its fullest rank
  double forecast_tokens_per_s = 0;  // 0: none
  std::int64_t forecast_memory_bytes = 0;
};

// The measured runs of a store that know their throughput and memory, oldest first, each with its
// forecast of the same store.
//
//   runs    of the store, with their figures
//   models  names of the runs' models; one that is missing leaves its run out
std::vector<MeasuredPlan> MeasuredPlansOf(const std::vector<RunInfo>& runs,
                                          const std::map<RunId, std::string>& models);

// One mark of the scatter.
struct PlanPoint {
  double memory_bytes = 0;
  double tokens_per_s = 0;
  bool pareto = false;
  bool tied = false;
};

struct PlanScatter {
  std::vector<PlanPoint> points;       // [plan]
  std::vector<std::size_t> front;      // plans of the front, by rising memory
  std::vector<MeasuredPlan> measured;  // of this model
  double low_memory = 0, high_memory = 1;  // what the axes show
  double low_rate = 0, high_rate = 1;
  double device_bytes = 0;

  // Where a mark lies in a plot of [0, 1) x [0, 1), from the left and from below.
  double X(double memory_bytes) const {
    return (memory_bytes - low_memory) / (high_memory - low_memory);
  }
  double Y(double tokens_per_s) const { return (tokens_per_s - low_rate) / (high_rate - low_rate); }
};

// Axes hold all plans, the measured runs of the same model and their forecasts.
PlanScatter ScatterOf(const FoundPlans& found, const std::vector<MeasuredPlan>& measured);

// The plan whose mark is nearest to a point of the plot, at most `reach` away in both; none there:
// nothing. Lengths are in widths and heights of the plot, `aspect` is its width over its height.
std::optional<std::size_t> NearestPlan(const PlanScatter& scatter, double x, double y,
                                       double aspect, double reach);

// A plan that was pinned, with the request it answers: searches of other models and machines may
// follow.
struct KeptPlan {
  std::shared_ptr<const PlanRequest> request;  // shared with what was found
  FoundPlan plan;

  std::string Title() const;  // "llama3-8b dp8 tp1 pp1 ..."
};

// A line of a comparison of two.
struct ComparedLine {
  std::string name;
  std::string first;
  std::string second;
  std::string change;  // "+3.1 %": of the second against the first; empty for words
  int sign = 0;        // of the change
};
struct PlanComparison {
  std::vector<ComparedLine> figures;  // step, tokens/s, MFU, memory, parts of the step
  std::vector<ComparedLine> fields;   // options of the plans that differ, model and machine first
};
PlanComparison ComparePlans(const KeptPlan& first, const KeptPlan& second);

// "950" or "2.13 M".
std::string CountText(std::int64_t count);

// Where the step of a plan goes, for a bar: names with seconds, by closed form.
std::vector<std::pair<std::string_view, double>> PartsOfStep(const StepParts& parts);

}  // namespace foretrain::ui
