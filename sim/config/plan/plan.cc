#include "sim/config/plan/plan.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/checked.h"
#include "base/text.h"
#include "sim/config/plan/plan_fields.h"
#include "sim/config/rules/plan_rules.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

// The message gives the nearest allowed value as a remedy.
Result<void> CheckRange(std::string_view field, std::int64_t value, std::int64_t low,
                        std::int64_t high) {
  if (value >= low && value <= high) return {};
  return Refuse("{} {}: must be from {} to {}; nearest: {}", field, value, low, high,
                std::clamp(value, low, high));
}

// The table of fields gives every limit, so a new field is checked without code here.
Result<void> CheckField(const PlanField& field, const Plan& plan) {
  if (field.number != nullptr) {
    const double value = plan.*field.number;
    if (value >= 0 && value <= field.max) return {};  // false for NaN
    return Refuse("{} {}: must be from 0 to {}", field.name, value, field.max);
  }
  if (field.list != nullptr) {
    for (const int value : plan.*field.list) {
      FT_TRY(CheckRange(field.name, value, field.low, field.high));
    }
    return {};
  }
  if (field.slots != nullptr) return {};  // they exist only if they work
  return CheckRange(field.name, field.get(plan), field.low, field.high);
}

// Fields first: later checks multiply them and rely on their ranges.
Result<void> CheckFields(const Plan& plan) {
  for (const PlanField& field : PlanFields()) FT_TRY(CheckField(field, plan));
  std::int64_t world = 1;  // each factor is at most 2^20
  for (const int factor : {plan.dp, plan.cp, plan.tp, plan.pp}) {
    world = std::min<std::int64_t>(world * factor, std::int64_t{1} << 40);
  }
  if (world > kMaxRanks) {
    return Refuse(
        "dp {} x cp {} x tp {} x pp {}: {} ranks, at most {} are possible; lower one of them",
        plan.dp, plan.cp, plan.tp, plan.pp, world, kMaxRanks);
  }
  return {};
}

// The two multiples of `unit` around `value`, for a message: "8 or 16".
std::string NearestMultiples(std::int64_t value, std::int64_t unit) {
  const std::int64_t below = value / unit * unit;
  return below == 0 ? std::to_string(unit) : fmt::format("{} or {}", below, below + unit);
}

// Exact division keeps all micro-batches equal, which the schedules and the forecast rely on.
Result<void> CheckBatch(const Plan& plan) {
  const std::int64_t unit = plan.dp * plan.micro_batch;  // at most 2^51
  if (plan.global_batch % unit != 0) {
    return Refuse("global_batch {}: must be a multiple of dp {} x micro_batch {} = {}; nearest: {}",
                  plan.global_batch, plan.dp, plan.micro_batch, unit,
                  NearestMultiples(plan.global_batch, unit));
  }
  if (plan.MicroBatches() > kMaxMicroBatches) {
    return Refuse(
        "micro_batch {}: makes {} micro-batches a step, at most {} are possible; raise it to at "
        "least {} or lower global_batch to {}",
        plan.micro_batch, plan.MicroBatches(), kMaxMicroBatches,
        CeilDiv(plan.global_batch / plan.dp, kMaxMicroBatches), unit * kMaxMicroBatches);
  }
  return {};
}

// The divisors of `count` next to `wanted` on either side, for a message: "2 or 4".
std::string NearestDivisors(std::int64_t count, std::int64_t wanted) {
  std::int64_t below = 1, above = 0;
  const auto consider = [&](std::int64_t divisor) {
    if (divisor <= wanted) below = std::max(below, divisor);
    if (divisor > wanted && (above == 0 || divisor < above)) above = divisor;
  };
  for (std::int64_t d = 1; d * d <= count; ++d) {
    if (count % d != 0) continue;
    consider(d);
    consider(count / d);
  }
  return above == 0 ? std::to_string(below) : fmt::format("{} or {}", below, above);
}

// Every width that tp cuts must be divisible. kv_heads may also divide tp: several ranks then hold
// the same key head.
Result<void> CheckTensorParallel(const Plan& plan, const ModelSpec& model) {
  std::int64_t fits = std::gcd(std::gcd(model.heads, model.kv_heads), model.ffn_hidden);
  fits = std::gcd(std::gcd(fits, model.expert_ffn_hidden), model.shared_ffn_hidden);
  struct Width {
    std::string_view name;
    std::int64_t value;
  };
  const std::array<Width, 5> widths = {{{"heads", model.heads},
                                        {"kv_heads", model.kv_heads},
                                        {"ffn_hidden", model.ffn_hidden},
                                        {"expert_ffn_hidden", model.expert_ffn_hidden},
                                        {"shared_ffn_hidden", model.shared_ffn_hidden}}};
  for (const Width& width : widths) {
    const bool shared = width.name == "kv_heads" && plan.tp % model.kv_heads == 0;
    if (width.value % plan.tp == 0 || shared) continue;
    return Refuse(
        "tp {}: must divide the model's {} {}; nearest that divides heads, kv_heads and "
        "ffn_hidden: {}",
        plan.tp, width.name, width.value, NearestDivisors(fits, plan.tp));
  }
  return {};
}

// Only learned positions end at a table; the other kinds extrapolate.
Result<void> CheckSequence(const Plan& plan, const ModelSpec& model) {
  if (model.positions == PositionKind::kLearned && plan.sequence > model.max_sequence) {
    return Refuse(
        "sequence {}: the model's learned position table has max_sequence {} rows; use at most {}",
        plan.sequence, model.max_sequence, model.max_sequence);
  }
  return {};
}

// Checks that the widest activation of a micro-batch and the tokens of a step stay below 2^56
// bytes.
Result<void> CheckSizes(const Plan& plan, const ModelSpec& model) {
  const std::int64_t widest =
      std::max({model.vocab, model.hidden, model.QkvWidth(), model.MlpUpWidth()});
  if (!CheckedMul("", plan.sequence, plan.micro_batch, widest, 4)) {
    return Refuse(
        "micro_batch {}, sequence {}: an activation of width {} passes 2^56 bytes; lower one of "
        "them",
        plan.micro_batch, plan.sequence, widest);
  }
  // Rows of the experts: each token occurs experts_per_token times.
  const std::int64_t expert_row = std::max(model.ExpertUpWidth(), model.hidden);
  if (model.experts > 0 &&
      !CheckedMul("", plan.sequence, plan.micro_batch, model.experts_per_token, expert_row, 4)) {
    return Refuse(
        "micro_batch {}, sequence {}, experts_per_token {}: an activation of the experts of width "
        "{} passes 2^56 bytes; lower one of them",
        plan.micro_batch, plan.sequence, model.experts_per_token, expert_row);
  }
  if (!CheckedMul("", plan.sequence, plan.global_batch, 4)) {
    return Refuse(
        "global_batch {}, sequence {}: the tokens of a step pass 2^56 bytes; lower one of them",
        plan.global_batch, plan.sequence);
  }
  return {};
}

}  // namespace

StageShape ShapeOf(ScheduleKind schedule) {
  switch (schedule) {
    case ScheduleKind::kInterleaved:
      return StageShape::kRounds;
    case ScheduleKind::kZbV:
    case ScheduleKind::kDualPipeV:
      return StageShape::kV;
    case ScheduleKind::kDualPipe:
      return StageShape::kBothWays;
    case ScheduleKind::kCustom:
      FT_CHECK(false && "slots decide the shape of a custom schedule");
      return StageShape::kLine;
    default:
      return StageShape::kLine;
  }
}

StageShape Plan::Shape() const {
  if (schedule != ScheduleKind::kCustom) return ShapeOf(schedule);
  return slots.empty() ? StageShape::kLine : slots.shape();
}

bool Plan::SplitsBackward() const {
  switch (schedule) {
    case ScheduleKind::kGpipe:
    case ScheduleKind::k1f1b:
    case ScheduleKind::kInterleaved:
    case ScheduleKind::kPipeDream:
    case ScheduleKind::kPipeDream2bw:
      return false;
    case ScheduleKind::kCustom:
      return !slots.empty() && slots.splits();
    default:
      return true;
  }
}

bool Plan::PairsSlots() const {
  if (schedule == ScheduleKind::kCustom) return !slots.empty() && slots.pairs();
  return schedule == ScheduleKind::kDualPipe || schedule == ScheduleKind::kDualPipeV;
}

// ZB-V and both DualPipes place two stages on each rank; interleaving places vpp.
int Plan::Chunks() const {
  if (schedule == ScheduleKind::kCustom) return slots.empty() ? 1 : slots.chunks();
  switch (Shape()) {
    case StageShape::kLine:
      return 1;
    case StageShape::kRounds:
      return vpp;
    default:
      return 2;
  }
}

// The default is what each attention algorithm can rebuild cheaply for its memory: flash attention
// stores no scores, so outputs of norms and activations are dropped too.
RecomputeModules ModulesOf(const Plan& plan) {
  if (plan.recompute_modules != 0) return plan.recompute_modules;
  RecomputeModules modules = BitOf(RecomputeModule::kCoreAttention);
  if (plan.attention == AttentionAlgorithm::kFlash) {
    modules |= BitOf(RecomputeModule::kNorm) | BitOf(RecomputeModule::kActivation) |
               BitOf(RecomputeModule::kExpertActivation);
  }
  return plan.mlp_tiles > 1 ? modules | BitOf(RecomputeModule::kMlp) : modules;
}

// Ranges, then the batch, then rules between fields.
Result<void> ValidatePlan(const Plan& plan) {
  FT_TRY(CheckFields(plan));
  FT_TRY(CheckBatch(plan));
  return CheckRules(plan);
}

// Models whose parts no block computes are refused here, before anything is compiled.
Result<void> ValidatePlan(const Plan& plan, const ModelSpec& model) {
  FT_TRY(ValidatePlan(plan));
  if (const std::string part = WhyNotLowered(model); !part.empty()) {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("model {}: {} is described and counted, but no block computes it yet, "
                            "so it cannot be planned",
                            Printable(model.name), part));
  }
  FT_TRY(CheckTensorParallel(plan, model));
  const std::int64_t layers = model.AllLayers();
  if (layers > kMaxLayers) {
    return Refuse("layers {}: a plan holds at most {} layers", layers, kMaxLayers);
  }
  if (plan.pp > layers) {
    return Refuse("pp {}: the model has {} layers and each stage needs one; use at most pp {}",
                  plan.pp, layers, layers);
  }
  FT_TRY(CheckSequence(plan, model));
  FT_TRY(CheckSizes(plan, model));
  return CheckRules(plan, model);
}

namespace {

// Fields that Describe prints in its own form.
constexpr std::array<std::string_view, 11> kDescribedApart = {
    "dp",       "tp",         "pp",        "sequence",     "global_batch", "micro_batch",
    "schedule", "zero_stage", "recompute", "bucket_bytes", "clip_norm"};

}  // namespace

// Named fields first, in a fixed order; every other field is printed only if it differs from its
// default.
std::string Describe(const Plan& plan) {
  std::string text = fmt::format("dp{} tp{} pp{} {} mb{}", plan.dp, plan.tp, plan.pp,
                                 Name(plan.schedule), plan.micro_batch);
  if (plan.dp > 0 && plan.micro_batch > 0 && plan.micro_batch <= kMaxModelCount)
    text += fmt::format(" x{}", plan.MicroBatches());
  if (plan.zero_stage != 0) text += fmt::format(" zero{}", plan.zero_stage);
  if (plan.recompute != RecomputeKind::kNone)
    text += fmt::format(" recompute-{}", Name(plan.recompute));
  for (const PlanField& field : PlanFields()) {
    const bool apart = std::find(kDescribedApart.begin(), kDescribedApart.end(), field.name) !=
                       kDescribedApart.end();
    if (apart || HasDefault(field, plan)) continue;
    // "--hsdp,..." becomes "hsdp2", or "cp-type-ring" for a choice: the first name on the command
    // line.
    const std::string_view option = FirstOption(field).substr(2);
    const std::string value = field.type == PlanFieldType::kFlag ? "" : TextOf(field, plan);
    const bool dash = field.type == PlanFieldType::kChoice || field.type == PlanFieldType::kNames ||
                      field.list != nullptr || field.slots != nullptr;
    text += fmt::format(" {}{}{}", option, dash ? "-" : "", value);
  }
  return text;
}

}  // namespace foretrain
