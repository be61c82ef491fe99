#include "sim/validate/run_plan.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "base/text.h"
#include "sim/config/rules/refuse.h"
#include "sim/validate/run_offload.h"

namespace foretrain {
namespace {

struct DtypeName {
  std::string_view name;
  Precision precision;
};
// fp8 with one scale per tensor: delayed (ds) or current (cs) scaling. Scales of blocks: MXFP8, and
// blocks of 128 numbers (subchannel).
constexpr std::array kDtypes = {
    DtypeName{"fp32", Precision::kFp32},
    DtypeName{"fp16", Precision::kFp16},
    DtypeName{"bf16", Precision::kBf16},
    DtypeName{"fp8", Precision::kFp8},
    DtypeName{"fp8-ds", Precision::kFp8},
    DtypeName{"fp8-cs", Precision::kFp8},
    DtypeName{"mxfp8", Precision::kFp8Block},
    DtypeName{"fp8-mx", Precision::kFp8Block},
    DtypeName{"fp8-mx/subchannel", Precision::kFp8Block},
    DtypeName{"fp8-sc", Precision::kFp8Block},
    DtypeName{"nvfp4", Precision::kFp4},
};

// Buffer space for tokens of experts, as a multiple of an even share: published runs force even
// loads except for the tokens of one batch (Fedus et al. 2021, s. 2.2).
constexpr double kExpertHeadroom = 1.25;

// Removes `suffix` from `text`; true if it was there.
bool RemoveSuffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

// Sets the plan's formats from the row's dtype; the preset fills in what the dtype leaves open.
// "-amp" (autocast) keeps fp32 weights, "-pure" keeps weights and moments in 16 bits. Of two
// formats, "fp8|nvfp4", a plan can have one: the shorter, which is the last.
Result<void> SetPrecision(std::string_view dtype, const Preset& preset, Plan& plan,
                          std::vector<std::string>& filled) {
  const std::string_view stated = dtype;
  if (const std::size_t stroke = dtype.rfind('|'); stroke != std::string_view::npos) {
    dtype.remove_prefix(stroke + 1);
    filled.push_back(fmt::format("dtype {} of {}", Printable(dtype), Printable(stated)));
  }
  const bool autocast = RemoveSuffix(dtype, "-amp"), pure = RemoveSuffix(dtype, "-pure");
  const auto found = std::find_if(kDtypes.begin(), kDtypes.end(),
                                  [dtype](const DtypeName& of) { return of.name == dtype; });
  if (found == kDtypes.end()) {
    return Refuse(
        "dtype \"{}\": must be fp32, fp16, bf16, fp8, fp8-ds, fp8-cs, fp8-mx, mxfp8 or nvfp4, with "
        "\"-amp\" for autocast or \"-pure\" for weights and moments of 16 bits",
        Printable(stated));
  }
  plan.precision = found->precision;
  ApplyFormats(preset, {}, plan);
  if (autocast && plan.HasShortActivations()) plan.weights = WeightStorage::kFp32;
  if (pure) {
    plan.weights = WeightStorage::kAlone;
    plan.moments = MomentFormat::kBf16;
  }
  return {};
}

// Sets the rank order from text such as "tp-cp-pp-dp (a remark)". Expert parallelism takes its
// ranks from dp, so where it is not named it runs just below dp.
Result<void> SetRankOrder(std::string_view text, Plan& plan) {
  text = Trim(text.substr(0, text.find(' ')));
  if (text.empty()) return {};
  std::string order(text);
  const std::vector<std::string_view> named = Split(text, '-');
  const bool has_ep = std::find(named.begin(), named.end(), "ep") != named.end();
  if (const std::size_t dp = order.find("dp"); !has_ep && dp != std::string::npos) {
    order.insert(dp, "ep-");
  }
  for (int number = 0; number < kRankOrderCount; ++number) {
    if (NameOfRankOrder(number) != order) continue;
    plan.rank_order = number;
    return {};
  }
  return Refuse("rank_order \"{}\": must name tp, cp, pp and dp, such as tp-cp-pp-dp",
                Printable(text));
}

// Sets the training method. The rank of adapters stands in the notes.
Result<void> SetMethod(const PublishedRun& run, Plan& plan) {
  if (run.method.empty() || run.method == "full") return {};
  if (run.method != "lora") {
    return Refuse("method \"{}\": must be full or lora", Printable(run.method));
  }
  plan.method = TrainingMethod::kLora;
  const std::size_t rank = run.assumptions.find("rank ");
  if (rank == std::string::npos) return {};
  const std::string_view digits = std::string_view(run.assumptions).substr(rank + 5);
  const auto value =
      ParseInt("rank", digits.substr(0, digits.find_first_not_of("0123456789")), 1, kMaxModelCount);
  if (value.has_value()) plan.lora_rank = static_cast<int>(*value);
  return {};
}

// Sets recomputation as stated by the family or else by the row, and its modules as the row's notes
// say. If every n-th layer recomputes, it does so in full.
Result<void> SetRecompute(const PublishedRun& run, const RunFamily& family, Plan& plan) {
  const std::string& stated = family.recompute.empty() ? run.recompute : family.recompute;
  if (stated.empty()) return {};
  const auto recompute = ParseRecompute(stated);
  if (!recompute.has_value()) {
    return Refuse("recompute \"{}\": must be none, selective or full", Printable(stated));
  }
  plan.recompute = *recompute;
  if (plan.recompute == RecomputeKind::kSelective && family.selective_every > 0) {
    plan.recompute = RecomputeKind::kFull;
    plan.recompute_every = family.selective_every;
  }
  if (plan.recompute != RecomputeKind::kSelective) {
    plan.recompute_modules = 0;
  } else if (const RecomputeModules noted = family.ModulesOf(run); noted != 0) {
    plan.recompute_modules = noted;
  }
  return {};
}

// Reads llmq's --lmhead-chunks from the row's notes, where these contain its command line.
Result<void> SetLossChunks(std::string_view words, Plan& plan) {
  constexpr std::string_view kOption = "--lmhead-chunks=";
  constexpr std::int64_t kMax = 1 << 16;
  const std::size_t at = words.find(kOption);
  if (at == std::string_view::npos) return {};
  words.remove_prefix(at + kOption.size());
  const std::string_view number = words.substr(0, words.find_first_not_of("0123456789"));
  FT_ASSIGN(const std::int64_t chunks, ParseInt(kOption, number, 1, kMax));
  plan.loss_chunks = static_cast<int>(chunks);
  return {};
}

}  // namespace

Result<Plan> PlanOfRun(const PublishedRun& run, const RunFamily& family, const Preset& preset,
                       std::vector<std::string>& filled) {
  Plan plan;
  plan.dp = run.dp;
  plan.tp = run.tp;
  plan.pp = run.pp;
  plan.cp = run.cp;
  plan.ep = run.ep;
  plan.sequence = run.sequence;
  plan.micro_batch = run.micro_batch > 0 ? run.micro_batch : 1;
  plan.global_batch = run.global_batch > 0 ? run.global_batch : plan.micro_batch * run.dp;
  ApplyPreset(preset,
              std::array{&PlanFieldOf("dp"), &PlanFieldOf("tp"), &PlanFieldOf("pp"),
                         &PlanFieldOf("cp"), &PlanFieldOf("ep")},
              plan);
  if (run.zero_stage.has_value()) plan.zero_stage = *run.zero_stage;
  // Without ZeRO, DistributedDataParallel reduces in buckets of its own size.
  if (plan.zero_stage == 0 && preset.system.ddp_buckets) plan.bucket_bytes = Plan{}.bucket_bytes;
  plan.sequence_parallel = run.sequence_parallel && run.tp > 1;
  FT_TRY(SetRankOrder(run.rank_order, plan));
  FT_TRY(SetMethod(run, plan));
  FT_TRY(SetRecompute(run, family, plan));
  plan.vpp = run.vpp.value_or(1);
  if (plan.pp == 1) plan.vpp = 1;
  if (plan.vpp > 1) plan.schedule = ScheduleKind::kInterleaved;
  if (plan.vpp == 1 && plan.schedule == ScheduleKind::kInterleaved) {
    plan.schedule = ScheduleKind::k1f1b;
  }
  if (run.attention == "standard") plan.attention = AttentionAlgorithm::kStandard;
  if (run.attention == "flash" || plan.cp > 1) plan.attention = AttentionAlgorithm::kFlash;
  if (plan.ep > 1 && plan.capacity_factor == 0) plan.expert_headroom = kExpertHeadroom;
  FT_TRY(SetLossChunks(run.assumptions, plan));
  FT_TRY(SetOffload(run.offload, plan));
  const std::string& dtype = family.DtypeOf(run);
  if (dtype != run.dtype) filled.push_back(fmt::format("dtype {} by its notes", dtype));
  FT_TRY(SetPrecision(dtype, preset, plan, filled));
  const int stated = plan.zero_stage;
  ApplySoftware(preset, {}, plan);
  if (plan.zero_stage != stated) {
    filled.push_back(fmt::format("zero_stage {} for {}: parameters stay gathered in a pipeline",
                                 plan.zero_stage, stated));
  }
  return plan;
}

}  // namespace foretrain
