// Changes of a launch's plan that make it faster, each with the weakness of the launch that it
// removes. Leaves out what a log shows: run_causes.h.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/config/launch/dialect.h"
#include "sim/config/launch/write_launch.h"
#include "sim/search/advice/single_changes.h"

namespace foretrain {

// Why a run is slower than it could be.
enum class CauseKind : std::uint8_t {
  // of the plan
  kMicroBatch,
  kTpAcrossNodes,
  kGradientOverlap,
  kTpOverlap,
  kSharding,
  kRecompute,
  kPipeline,
  kSplit,
  kOffload,
  kKernels,
  // of the run
  kDataLoader,
  kThrottling,
  kPauses,
  kSlowCompute,
  kNotExplained,
};
inline constexpr int kCauseKinds = 15;
// "micro-batch", in JSON; and a sentence's subject: "the micro-batch is small".
std::string_view Name(CauseKind kind);
std::string_view TextOf(CauseKind kind);

// The weakness that a change of `from` to `to` removes; `nullopt` if the change is none that a
// check proposes (another number format, a smaller micro-batch).
std::optional<CauseKind> CauseOf(const ClusterSpec& cluster, const Fabric& fabric, const Plan& from,
                                 const Plan& to);

// A trainer's launch file, for what it can say.
struct LaunchDialect {
  const Dialect* dialect = nullptr;
  std::span<const Dialect> dialects;
  std::string model_name;  // in the catalogue; empty: the file describes the model
};

struct PlanCause {
  CauseKind kind = CauseKind::kMicroBatch;
  std::string options;            // of foretrain: "--micro-batch 4"
  std::vector<std::string> keys;  // of the trainer: "--micro-batch-size 4"
  Plan plan;                      // with this change and those before it
  double step_s = 0;              // its forecast
  double saved_s = 0;
};

struct PlanCauses {
  PlanForecast as_is;
  std::vector<PlanCause> causes;  // each on top of those before it, at most one of a kind
};
inline constexpr int kMaxPlanCauses = 4;

// The changes that help most, one after the other: all single changes of the plan are compared in
// closed form; the fastest that fits and that the trainer's launch file can say is simulated, and
// taken if it gains kWorthTrying. Then those of the changed plan follow.
//
//   memory_bytes  that a plan may use on a device
//   cancelled     asked now and then; empty: never
//
// Errors: those of ForecastPlan on `plan` itself. Deterministic.
Result<PlanCauses> FindPlanCauses(const ModelSpec& model, const CostModel& costs, const Plan& plan,
                                  const LaunchDialect& launch, std::int64_t memory_bytes,
                                  int threads);

// Keys of a trainer's launch file in which `to` differs from `from`, in its spelling:
// "--micro-batch-size 4", "training.local_batch_size = 4", "without --recompute-granularity".
// Errors: kUnsupported if the file cannot say `to` though it can say `from`.
Result<std::vector<std::string>> KeysBetween(const LaunchDialect& launch, const ModelSpec& model,
                                             int devices_per_node, const Plan& from,
                                             const Plan& to);

}  // namespace foretrain
