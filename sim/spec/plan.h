// How a model is trained on how many ranks: a complete choice, nothing else decides. Leaves out the
// model and the machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "sim/spec/model_spec.h"

namespace foretrain {

enum class ScheduleKind : std::uint8_t { kGpipe, k1f1b, kZbH1 };
enum class RecomputeKind : std::uint8_t { kNone, kFull };

std::string_view Name(ScheduleKind schedule);
std::string_view Name(RecomputeKind recompute);
std::optional<ScheduleKind> ParseSchedule(std::string_view name);
std::optional<RecomputeKind> ParseRecompute(std::string_view name);

struct Plan {
  int dp = 1;
  int tp = 1;
  int pp = 1;
  std::int64_t sequence = 0;      // tokens of one sample
  std::int64_t global_batch = 0;  // samples a step over all ranks
  std::int64_t micro_batch = 0;   // samples of one pass on one rank
  ScheduleKind schedule = ScheduleKind::k1f1b;
  int zero_stage = 0;  // 0, 1 or 3
  RecomputeKind recompute = RecomputeKind::kNone;
  double clip_norm = 0.0;  // global gradient norm that is clipped to; 0: no clipping
  std::int64_t bucket_bytes =
      25'000'000;  // gradients of layers are reduced together up to this size

  int World() const { return dp * tp * pp; }
  std::int64_t MicroBatches() const { return global_batch / (micro_batch * dp); }
  bool operator==(const Plan&) const = default;
};

// Checks the plan by itself and against the model: ranks, divisibility of batch, heads, kv heads
// and widths by tp, layers at least pp, the sequence within the position table. Each refusal names
// field, value and remedy.
Result<void> ValidatePlan(const Plan& plan, const ModelSpec& model);

// "dp2 tp1 pp2 1f1b mb4 x8 zero1 recompute-full": short, for tables and titles.
std::string Describe(const Plan& plan);

}  // namespace foretrain
