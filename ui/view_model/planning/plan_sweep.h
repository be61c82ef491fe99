// How a plan does as one dimension grows: longer sequences, more nodes, more micro-batches.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ui/view_model/planning/what_if.h"

namespace foretrain::ui {

enum class SweptField : std::uint8_t {
  kSequence,     // the batch in samples stays
  kDevices,      // nodes, absorbed by dp; the global batch stays
  kGlobalBatch,  // samples a step
  kMicroBatch,
};
inline constexpr int kSweptFieldCount = 4;

// "sequence", "GPUs", "global batch", "micro batch".
std::string_view Name(SweptField field);

struct SweepPoint {
  std::int64_t value = 0;
  bool own = false;                  // the scenario as it is
  std::optional<StepStats> stats{};  // absent if the plan is not legal there
  int devices = 1;
  std::string problem{};  // why not

  double TokensPerDevice() const { return stats ? stats->tokens_per_s / devices : 0.0; }
  // Device-hours of a billion tokens: proportional to what they cost.
  double DeviceHoursPerBillion() const;
};

struct PlanSweep {
  SweptField field = SweptField::kSequence;
  std::vector<SweepPoint> points{};  // by value
};

// Values that are a power of two times the scenario's own, down to 1/64 and up to 64 times as
// large, by passes. O(points) answers of StepMaker. Errors: kAborted if `cancelled` says so.
Result<PlanSweep> SweepOf(const Scenario& scenario, SweptField field, StepMaker& maker,
                          const std::function<bool()>& cancelled);

}  // namespace foretrain::ui
