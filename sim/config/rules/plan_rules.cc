// Longer than 400 lines: the table of all rules, and those that need a plan alone.
#include "sim/config/rules/plan_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "sim/config/plan/plan_fields.h"

namespace foretrain {
namespace {

// vpp is the number of chunks per rank, which only the interleaved schedule leaves open.
std::string VppNeedsInterleaving(const Plan& plan) {
  if (plan.vpp == 1 || plan.schedule == ScheduleKind::kInterleaved) return {};
  return fmt::format(
      "vpp {} with schedule {}: only the schedule interleaved has chunks; use schedule interleaved "
      "or vpp 1",
      plan.vpp, Name(plan.schedule));
}

// Largest divisor of `count` that is at most `wanted`; both >= 1.
int DivisorBelow(int count, int wanted) {
  int divisor = std::min(count, wanted);
  while (count % divisor != 0) --divisor;
  return divisor;
}

// A replica is a set of ranks with one full set of shards (hybrid sharding). So replicas must
// divide the data-parallel ranks.
std::string ReplicasDivideRanks(const Plan& plan) {
  const int ranks = plan.DataParallel();
  if (ranks % plan.replicas == 0) return {};
  return fmt::format(
      "replicas {} with {} data-parallel ranks: each replica holds all shards, so it must divide "
      "them; use replicas {}",
      plan.replicas, ranks, DivisorBelow(ranks, plan.replicas));
}

std::string ReplicasNeedSharding(const Plan& plan) {
  if (plan.replicas == 1 || plan.zero_stage > 0) return {};
  return fmt::format(
      "replicas {} with zero_stage 0: only shards have replicas; use zero_stage 1 or replicas 1",
      plan.replicas);
}

// The gather format applies to temporary copies. Below ZeRO-3 a gather fills the parameters
// themselves, which must stay exact.
std::string GatherFormatNeedsShardedParameters(const Plan& plan) {
  if (plan.gather_format == GatherFormat::kFp32 || plan.zero_stage == 3) return {};
  return fmt::format(
      "gather_format {} with zero_stage {}: only zero_stage 3 gathers copies of parameters, others "
      "their only ones; use zero_stage 3 or gather_format fp32",
      TextOf(PlanFieldOf("gather_format"), plan), plan.zero_stage);
}

std::string GatherBucketNeedsCopies(const Plan& plan) {
  if (plan.gather_bytes == 0 || plan.zero_stage == 3) return {};
  if (plan.offload_parameters != OffloadTarget::kNone) return {};
  return fmt::format(
      "gather_bytes {} with zero_stage {}: parameters that lie whole on the device are not "
      "gathered "
      "for their uses; use zero_stage 3 or gather_bytes 0",
      plan.gather_bytes, plan.zero_stage);
}

// Parameters that stay whole trade memory for gathers. They must be on the device and would
// otherwise be sharded.
std::string UnshardedNeedsShardedParameters(const Plan& plan) {
  if (plan.unsharded_bytes == 0) return {};
  if (plan.zero_stage != 3) {
    return fmt::format(
        "unsharded_bytes {} with zero_stage {}: only zero_stage 3 has shards of parameters; use "
        "zero_stage 3 or unsharded_bytes 0",
        plan.unsharded_bytes, plan.zero_stage);
  }
  if (plan.offload_parameters == OffloadTarget::kNone) return {};
  return fmt::format(
      "unsharded_bytes {} with offload_parameters {}: what is left whole stays on the device; use "
      "offload_parameters none or unsharded_bytes 0",
      plan.unsharded_bytes, Name(plan.offload_parameters));
}

std::string SgdHasNoMoments(const Plan& plan) {
  if (plan.optimizer != OptimizerKind::kSgd || plan.moments == MomentFormat::kFp32) return {};
  return fmt::format(
      "moments {} with optimizer sgd: it keeps none; use optimizer adamw or moments fp32",
      TextOf(PlanFieldOf("moments"), plan));
}

std::string OneMomentHas16Bits(const Plan& plan) {
  if (MomentsOf(plan.optimizer) != 1 || plan.moments != MomentFormat::kInt8) return {};
  return fmt::format(
      "moments int8 with optimizer {}: only adamw has 8-bit moments; use moments bf16 or optimizer "
      "adamw",
      TextOf(PlanFieldOf("optimizer"), plan));
}

// An amendment needs the update to be undone: Lion's sign forgets the size of the step.
std::string PostValidationAmendsAdamWAndSgd(const Plan& plan) {
  if (!plan.post_validation || MomentsOf(plan.optimizer) != 1) return {};
  return fmt::format(
      "post_validation with optimizer {}: only updates by adamw and sgd are amended; use one of "
      "them or leave post_validation out",
      TextOf(PlanFieldOf("optimizer"), plan));
}

// The slots decide the order, so a plan has them exactly if its schedule is custom.
std::string CustomNeedsSlots(const Plan& plan) {
  const bool custom = plan.schedule == ScheduleKind::kCustom;
  if (custom != plan.slots.empty()) return {};
  if (custom) {
    return "schedule custom without schedule_slots: nothing says its order; give --schedule-file "
           "FILE, which `foretrain schedule export` can write, or use schedule 1f1b";
  }
  return fmt::format(
      "schedule_slots with schedule {}: they are the order of a custom schedule; use schedule "
      "custom or leave schedule_slots out",
      Name(plan.schedule));
}

// A custom schedule names its ranks and micro-batches.
std::string SlotsAreOfThePlan(const Plan& plan) {
  if (plan.slots.empty()) return {};
  const SlotOrder& slots = plan.slots;
  if (slots.ranks() != plan.pp) {
    return fmt::format("pp {} with the schedule {}: it has {} ranks; use pp {}", plan.pp,
                       slots.file(), slots.ranks(), slots.ranks());
  }
  if (slots.micro_batches() == plan.MicroBatches()) return {};
  return fmt::format(
      "global_batch {} with the schedule {}: it has {} micro-batches and the plan {}; use "
      "global_batch {}",
      plan.global_batch, slots.file(), slots.micro_batches(), plan.MicroBatches(),
      slots.micro_batches() * plan.dp * plan.micro_batch);
}

// Micro-batches must form rounds of equal size, each of at least pp.
std::string InterleavingNeedsWholeRounds(const Plan& plan) {
  if (plan.schedule != ScheduleKind::kInterleaved) return {};
  const std::int64_t m = plan.MicroBatches();
  const std::int64_t rounds = std::max<std::int64_t>(1, m / plan.pp);
  if (m % rounds == 0) return {};
  const std::int64_t unit = plan.dp * plan.micro_batch;
  return fmt::format(
      "schedule interleaved with pp {} and {} micro-batches: they must be a multiple of pp; "
      "nearest "
      "global_batch: {} or {}",
      plan.pp, m, rounds * plan.pp * unit, (rounds + 1) * plan.pp * unit);
}

// Both schedules run micro-batches in two directions. DualPipe holds each stage twice, so stages
// pair up and each direction gets half of the micro-batches.
std::string TwoWaysNeedMicroBatches(const Plan& plan) {
  // A custom schedule has the micro-batches that its slots name.
  if (plan.schedule == ScheduleKind::kCustom) return {};
  const bool both_ways = plan.schedule == ScheduleKind::kDualPipe;
  if (!both_ways && plan.schedule != ScheduleKind::kDualPipeV) return {};
  const std::int64_t m = plan.MicroBatches();
  const std::int64_t unit = plan.dp * plan.micro_batch;
  if (m < 2 * plan.pp) {
    return fmt::format(
        "schedule {} with pp {} and {} micro-batches: it needs at least {}; use global_batch {} "
        "or "
        "schedule 1f1b",
        Name(plan.schedule), plan.pp, m, 2 * plan.pp, 2 * plan.pp * unit);
  }
  if (both_ways && plan.pp % 2 != 0) {
    return fmt::format("schedule dualpipe with pp {}: it needs an even pp; nearest: {}", plan.pp,
                       plan.pp + 1);
  }
  if (both_ways && m % 2 != 0) {
    return fmt::format(
        "schedule dualpipe with {} micro-batches: half of them go either way; nearest "
        "global_batch: {}",
        m, (m + 1) * unit);
  }
  return {};
}

// The two holders of a stage run it for different micro-batches. They never gather its parameters
// or scatter its gradients at the same time.
std::string DualPipeKeepsWholeParameters(const Plan& plan) {
  if (!plan.GoesBothWays() || plan.zero_stage < 2) return {};
  return fmt::format(
      "schedule {} with zero_stage {}: both holders of a stage would have to use it at once; use "
      "zero_stage 1 or schedule dualpipe-v",
      Name(plan.schedule), plan.zero_stage);
}

// Two chunks per rank give each the same work under a causal mask.
std::string ContextNeedsWholeChunks(const Plan& plan) {
  const std::int64_t chunks = std::int64_t{2} * plan.cp;
  if (plan.cp == 1 || plan.sequence % chunks == 0) return {};
  const std::int64_t below = plan.sequence / chunks * chunks;
  return fmt::format(
      "cp {} with sequence {}: it is cut into 2 * cp = {} equal chunks; nearest sequence: {}{}",
      plan.cp, plan.sequence, chunks, below > 0 ? fmt::format("{} or ", below) : std::string(),
      below + chunks);
}

// A ring step needs up to four ops of a block, whose ids end at 4,095.
std::string RingHasFewTurns(const Plan& plan) {
  constexpr int kMax = 512;
  if (plan.cp <= kMax || plan.cp_kind != ContextParallelKind::kRing) return {};
  return fmt::format(
      "cp {} with cp_kind ring: at most {} ranks in a ring; use cp {} or cp_kind "
      "all-gather",
      plan.cp, kMax, kMax);
}

// All-to-all gives each rank whole heads for the whole sequence. So cp must divide the key heads
// left after tensor parallelism.
std::string AllToAllNeedsKeyHeads(const Plan& plan, const ModelSpec& model) {
  if (plan.cp == 1 || plan.cp_kind != ContextParallelKind::kAllToAll) return {};
  const std::int64_t heads = model.KvHeadsOn(plan.tp);
  if (heads % plan.cp == 0) return {};
  int nearest = plan.cp - 1;
  while (nearest > 1 && heads % nearest != 0) --nearest;
  return fmt::format(
      "cp_kind all-to-all with cp {}, tp {} and {} kv_heads: each rank needs whole key heads; use "
      "cp "
      "{} or cp_kind ring",
      plan.cp, plan.tp, model.kv_heads, nearest);
}

// For the same reason they never reduce the gradients of one micro-batch together.
std::string DualPipeSumsAtTheEnd(const Plan& plan) {
  if (!plan.GoesBothWays() || plan.reduction_time == ReductionTime::kEnd) return {};
  return fmt::format(
      "schedule {} with reduction_time micro-batch: both holders of a stage run it for unlike "
      "micro-batches; use reduction_time end or schedule dualpipe-v",
      Name(plan.schedule));
}

// Every stage needs a layer, except that stage_layers may leave the first, which has the embedding,
// and the last, which has the head, without one. They must match both counts exactly.
std::string StagesNeedLayers(const Plan& plan, const ModelSpec& model) {
  const int stages = plan.Stages();
  const std::int64_t layers = model.AllLayers();
  if (!plan.stage_layers.empty()) {
    for (int stage = 1; stage + 1 < static_cast<int>(plan.stage_layers.size()); ++stage) {
      if (plan.stage_layers[static_cast<std::size_t>(stage)] > 0) continue;
      return fmt::format(
          "stage_layers {}: stage {} has no layer, which only the first and the last stage may "
          "lack; use at least 1",
          fmt::join(plan.stage_layers, ","), stage);
    }
    std::int64_t sum = 0;
    for (const int here : plan.stage_layers) sum += here;
    const auto count = static_cast<int>(plan.stage_layers.size());
    if (count == stages && sum == layers) return {};
    return fmt::format(
        "stage_layers {}: gives {} layers to {} stages; the model has {} layers and the plan {} "
        "stages",
        fmt::join(plan.stage_layers, ","), sum, count, layers, stages);
  }
  if (stages <= layers) return {};
  return fmt::format(
      "schedule {} with pp {} cuts the model into {} stages and it has {} layers; use at most pp "
      "{}",
      Name(plan.schedule), plan.pp, stages, layers,
      std::max<std::int64_t>(1, layers * plan.pp / stages));
}

// Rows of one micro-batch on one rank.
std::int64_t RowsOf(const Plan& plan) { return plan.micro_batch * plan.LocalSequence(); }

// Shared by the rules that cut the rows of a micro-batch into pieces.
std::string MorePiecesThanRows(const Plan& plan, std::string_view field, int pieces) {
  const std::int64_t rows = RowsOf(plan);
  if (pieces <= rows) return {};
  return fmt::format("{} {} with {} tokens of a micro-batch: a piece has at least one; use {} {}",
                     field, pieces, rows, field, rows);
}
std::string LossChunksFitTheRows(const Plan& plan) {
  return MorePiecesThanRows(plan, "loss_chunks", plan.loss_chunks);
}
std::string MlpTilesFitTheRows(const Plan& plan) {
  return MorePiecesThanRows(plan, "mlp_tiles", plan.mlp_tiles);
}
std::string TpTilesFitTheRows(const Plan& plan) {
  return MorePiecesThanRows(plan, "tp_tiles", plan.tp_tiles);
}

// The weight-gradient half would need the inner gradients of all tiles at once, which tiles avoid.
std::string MlpTilesNeedWholeBackward(const Plan& plan) {
  if (plan.mlp_tiles == 1 || !plan.SplitsBackward()) return {};
  return fmt::format(
      "mlp_tiles {} with schedule {}: a tile's backward is not cut in two; use schedule 1f1b or "
      "mlp_tiles 1",
      plan.mlp_tiles, Name(plan.schedule));
}

}  // namespace

// The first broken rule is reported, so the order decides which remedy a user sees.
std::span<const PlanRule> PlanRules() {
  static const std::vector<PlanRule> rules = {
      {"vpp-needs-interleaving", VppNeedsInterleaving},
      {"custom-needs-slots", CustomNeedsSlots},
      {"slots-are-of-the-plan", SlotsAreOfThePlan},
      {"replicas-divide-ranks", ReplicasDivideRanks},
      {"replicas-need-sharding", ReplicasNeedSharding},
      {"gather-format-needs-sharded-parameters", GatherFormatNeedsShardedParameters},
      {"gather-bucket-needs-copies", GatherBucketNeedsCopies},
      {"unsharded-needs-sharded-parameters", UnshardedNeedsShardedParameters},
      {"sgd-has-no-moments", SgdHasNoMoments},
      {"one-moment-has-16-bits", OneMomentHas16Bits},
      {"weights-need-short-activations", WeightsNeedShortActivations},
      {"gradients-need-short-activations", GradientsNeedShortActivations},
      {"gather-format-shortens", GatherFormatShortens},
      {"masters-leave-parameters-here", MastersLeaveParametersHere},
      {"unsharded-is-read-as-gathered", UnshardedIsReadAsGathered},
      {"post-validation-amends-fp32", PostValidationAmendsFp32},
      {"interleaving-needs-whole-rounds", InterleavingNeedsWholeRounds},
      {"two-ways-need-micro-batches", TwoWaysNeedMicroBatches},
      {"overlap-needs-micro-batches", OverlapNeedsMicroBatches},
      {"overlap-updates-alone", OverlapUpdatesAlone},
      {"overlap-keeps-whole-parameters", OverlapKeepsWholeParameters},
      {"pipedream-sums-once", PipeDreamSumsOnce},
      {"overlap-trains-all", OverlapTrainsAll},
      {"overlap-stays-on-the-device", OverlapStaysOnTheDevice},
      {"post-validation-needs-zero-bubble", PostValidationNeedsZeroBubble},
      {"post-validation-needs-what-to-validate", PostValidationNeedsWhatToValidate},
      {"post-validation-keeps-fp32-on-the-device", PostValidationKeepsFp32OnTheDevice},
      {"post-validation-amends-adamw-and-sgd", PostValidationAmendsAdamWAndSgd},
      {"muon-needs-plain-updates", MuonNeedsPlainUpdates},
      {"adafactor-needs-plain-updates", AdafactorNeedsPlainUpdates},
      {"average-needs-plain-updates", AverageNeedsPlainUpdates},
      {"dualpipe-keeps-whole-parameters", DualPipeKeepsWholeParameters},
      {"fraction-needs-offload", FractionNeedsOffload},
      {"stream-needs-offload", StreamNeedsOffload},
      {"delay-needs-host-update", DelayNeedsHostUpdate},
      {"offloaded-moments-are-fp32", OffloadedMomentsAreFp32},
      {"delay-needs-plain-loss", DelayNeedsPlainLoss},
      {"parameters-need-offloaded-updates", ParametersNeedOffloadedUpdates},
      {"gradients-need-offloaded-updates", GradientsNeedOffloadedUpdates},
      {"gradients-stay-in-memory", GradientsStayInMemory},
      {"gradients-leave-summed", GradientsLeaveSummed},
      {"dualpipe-sums-at-the-end", DualPipeSumsAtTheEnd},
      {"vocab-parallel-needs-tp", VocabParallelNeedsTp},
      {"sequence-parallel-needs-tp", SequenceParallelNeedsTp},
      {"sequence-parallel-needs-even-rows", SequenceParallelNeedsEvenRows},
      {"recompute-layers-need-recompute", RecomputeLayersNeedRecompute},
      {"recompute-every-needs-recompute", RecomputeEveryNeedsRecompute},
      {"recompute-modules-are-selective", RecomputeModulesAreSelective},
      {"loss-chunks-fit-the-rows", LossChunksFitTheRows},
      {"mlp-tiles-fit-the-rows", MlpTilesFitTheRows},
      {"mlp-tiles-need-a-whole-backward", MlpTilesNeedWholeBackward},
      {"tp-tiles-need-tp", TpTilesNeedTp},
      {"tp-tiles-fit-the-rows", TpTilesFitTheRows},
      {"scattered-tiles-are-of-one-kind", ScatteredTilesAreOfOneKind},
      {"headroom-needs-dropless-ep", HeadroomNeedsDroplessEp},
      {"headroom-holds-an-even-share", HeadroomHoldsAnEvenShare},
      {"whole-experts-need-split-rows", WholeExpertsNeedSplitRows},
      {"experts-are-cut-or-whole", ExpertsAreCutOrWhole},
      {"moe-pieces-need-ep", MoePiecesNeedEp},
      {"moe-pieces-fit-the-tokens", MoePiecesFitTheTokens},
      {"ep-needs-one-replica", EpNeedsOneReplica},
      {"context-needs-whole-chunks", ContextNeedsWholeChunks},
      {"ring-has-few-turns", RingHasFewTurns},
      {"scores-need-whole-sequences", ScoresNeedWholeSequences},
      {"adapters-need-lora", AdaptersNeedLora},
      {"adapters-are-scaled", AdaptersAreScaled},
      {"quantized-base-is-read-in-16-bits", QuantizedBaseIsReadIn16Bits},
      {"scale-window-needs-a-scale", ScaleWindowNeedsAScale},
      {"scale-is-known-where-it-is-undone", ScaleIsKnownWhereItIsUndone},
  };
  return rules;
}

std::span<const PlanModelRule> PlanModelRules() {
  static const std::vector<PlanModelRule> rules = {
      {"stages-need-layers", StagesNeedLayers},
      {"vocab-multiple-leaves-ids", VocabMultipleLeavesIds},
      {"products-need-whole-blocks", ProductsNeedWholeBlocks},
      {"capacity-needs-experts", CapacityNeedsExperts},
      {"whole-experts-need-experts", WholeExpertsNeedExperts},
      {"ep-divides-ranks-and-experts", EpDividesRanksAndExperts},
      {"mlp-tiles-need-an-mlp", MlpTilesNeedAnMlp},
      {"recompute-modules-exist", RecomputeModulesExist},
      {"balance-groups-are-whole", BalanceGroupsAreWhole},
      {"all-to-all-needs-key-heads", AllToAllNeedsKeyHeads},
      {"adapters-are-thin", AdaptersAreThin},
      {"adapters-leave-experts-out", AdaptersLeaveExpertsOut},
      {"adapters-leave-latent-attention-out", AdaptersLeaveLatentAttentionOut},
      {"sinks-need-all-scores", SinksNeedAllScores},
      {"whole-head-norms-need-all-heads", WholeHeadNormsNeedAllHeads},
      {"written-scores-are-plain", WrittenScoresArePlain},
      {"chunks-are-whole", ChunksAreWhole},
      {"residuals-start-at-wide-norms", ResidualsStartAtWideNorms},
      {"documents-need-causal-sequences", DocumentsNeedCausalSequences},
      {"stacks-read-tokens", StacksReadTokens},
      {"stacks-are-whole", StacksAreWhole},
      {"mtp-needs-whole-sequences", MtpNeedsWholeSequences},
      {"mtp-needs-all-logits", MtpNeedsAllLogits},
      {"mtp-drops-nothing", MtpDropsNothing},
      {"adapters-leave-mtp-out", AdaptersLeaveMtpOut},
      {"mtp-needs-one-last-stage", MtpNeedsOneLastStage},
      {"pipedream-unties-embeddings", PipeDreamUntiesEmbeddings},
      {"overlap-trains-all-of-the-router", OverlapTrainsAllOfTheRouter},
      {"balanced-biases-stay-here", BalancedBiasesStayHere},
      {"scattered-tiles-need-two-norms", ScatteredTilesNeedTwoNorms},
  };
  return rules;
}

Result<void> CheckRules(const Plan& plan) {
  for (const PlanRule& rule : PlanRules()) {
    if (std::string why = rule.broken(plan); !why.empty()) {
      return Fail(ErrorCode::kInvalidArgument, std::move(why));
    }
  }
  return {};
}

Result<void> CheckRules(const Plan& plan, const ModelSpec& model) {
  for (const PlanModelRule& rule : PlanModelRules()) {
    if (std::string why = rule.broken(plan, model); !why.empty()) {
      return Fail(ErrorCode::kInvalidArgument, std::move(why));
    }
  }
  return {};
}

}  // namespace foretrain
