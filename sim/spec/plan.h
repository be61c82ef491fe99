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

std::string_view Name(ScheduleKind schedule);    // "gpipe", "1f1b", "zb-h1"
std::string_view Name(RecomputeKind recompute);  // "none", "full"
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

inline constexpr int kMaxRanks = 1 << 20;
inline constexpr std::int64_t kMaxMicroBatches = std::int64_t{1} << 18;  // ids hold 18 bits
inline constexpr std::int64_t kMaxLayers = 8190;  // ids hold 13 bits for embedding, layers and head

// Checks `plan` by itself.
//
// Errors: kInvalidArgument, naming field, value and remedy with the nearest value that works: dp,
// tp, pp below 1 or more than kMaxRanks together; a global batch that is no multiple of dp *
// micro_batch; a ZeRO stage other than 0, 1, 3; a clip_norm or bucket_bytes out of range; more
// micro-batches than ids can hold. ZeRO with dp 1 is allowed: nothing is sharded. Any schedule is
// allowed with pp 1, and any recomputation with any schedule: with zb-h1, a layer's forward runs
// again before its input-gradient half, whose weight-gradient half reads the same rebuilt tensors.
// O(1); safe from any thread.
Result<void> ValidatePlan(const Plan& plan);

// Checks `plan` by itself and against `model`, which is valid.
//
// Errors: as above, and heads, kv_heads or ffn_hidden that tp does not divide; more stages than
// layers; more layers than ids can hold; a sequence past the learned position table or the
// attention window; an activation of a micro-batch past 2^56 bytes. O(sqrt(heads)); safe from any
// thread.
Result<void> ValidatePlan(const Plan& plan, const ModelSpec& model);

// "dp2 tp1 pp2 1f1b mb4 x8 zero1 recompute-full": short, for tables and titles. mb is the samples
// of a micro-batch, x the micro-batches of a step; zero and recompute are left out where they are
// off.
std::string Describe(const Plan& plan);

}  // namespace foretrain
