#include "sim/search/evaluate/block_table.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "sim/program/blocks/backward_passes.h"
#include "sim/program/ir/precision.h"
#include "sim/program/lower/layout/sharding.h"
#include "sim/program/lower/model/block_memory.h"
#include "sim/program/lower/offload/offload_activations.h"
#include "sim/program/lower/rank/step_memory.h"

namespace foretrain {
namespace {

// The plan reduced to what the memory of a block reads: one stage with all layers, no sharding and
// no offloading. Their bytes are counted elsewhere.
Plan OfOneStage(const Plan& plan, RecomputeKind recompute) {
  const Plan standard;
  Plan out = plan;
  out.recompute = recompute;
  out.recompute_layers = 0;
  out.recompute_every = 1;
  out.schedule = ScheduleKind::k1f1b;
  out.slots = {};
  out.pp = out.vpp = 1;
  out.stage_layers.clear();
  out.zero_stage = 0;
  out.replicas = 1;
  out.reduction_time = ReductionTime::kEnd;
  for (OffloadTarget Plan::*offload : {&Plan::offload_optimizer, &Plan::offload_gradients,
                                       &Plan::offload_parameters, &Plan::offload_activations}) {
    out.*offload = standard.*offload;
  }
  return out;
}

// Builds each pass of one block at most once.
class Passes {
 public:
  Passes(const ModelSpec& model, const Plan& plan, const BlockChoice& choice)
      : context_{model, plan, choice.shared_table},
        request_{.kind = choice.kind, .recompute = choice.recompute, .global = choice.global} {}

  const Block& Of(Pass pass) {
    const auto [found, is_new] = blocks_.try_emplace(pass);
    if (!is_new) return found->second;
    // A middle micro-batch: it accumulates onto gradients and loss of earlier ones.
    BlockRequest request = request_;
    request.pass = pass;
    request.accumulate = request.accumulate_experts = pass != Pass::kRecompute;
    request.adds_loss = pass == Pass::kForward;
    const bool backward = pass == Pass::kBackward || IsHalf(pass);
    if (!backward || !IsLayer(request.kind)) return found->second = BuildBlock(context_, request);
    if (!backward_) backward_.emplace(context_, request);
    return found->second = backward_->Of(pass);
  }
  std::size_t ops() const {
    std::size_t sum = 0;
    for (const auto& [pass, block] : blocks_) sum += block.ops.size();
    return sum;
  }

 private:
  static bool IsHalf(Pass pass) {
    return pass == Pass::kBackwardInput || pass == Pass::kBackwardWeight;
  }

  BlockContext context_;
  BlockRequest request_;
  std::optional<BackwardPasses> backward_;
  std::map<Pass, Block> blocks_;  // references stay valid
};

}  // namespace

// Computes the costs of one block's passes. Its parts are asked for separately, because seconds
// alone rule out most plans of a search.
class BlockMaker {
 public:
  BlockMaker(const ModelSpec& model, const Plan& plan, const BlockChoice& choice, BlockTimes& times)
      : plan_(plan),
        choice_(choice),
        times_(times),
        alone_(OfOneStage(plan, choice.recompute)),
        stage_(StageOf(model, alone_, 0)),
        context_{model, alone_, stage_, no_buckets_, {}},
        passes_(model, plan_, choice) {
    stage_.shared_table = choice.shared_table;
    if (choice.kind == BlockKind::kHead) block_ = stage_.layers + 1;
    if (IsLayer(choice.kind)) block_ = MiddleLayer();
  }

  // Number of ops built so far.
  std::size_t ops() const { return passes_.ops(); }

  void MakeWhole(BlockCosts& out) {
    AddSeconds(Pass::kForward, out.forward);
    Fill(Pass::kBackward, out.backward, &BlockMaker::AddSeconds);
    if (IsLayer(choice_.kind) && choice_.recompute == RecomputeKind::kFull) {
      AddSeconds(Pass::kRecompute, out.again);
      // Such a system repeats the whole forward, so the recomputation takes as long.
      if (times_.whole_recompute()) {
        out.again.span_s = out.forward.span_s;
        out.again.compute_s = out.forward.compute_s;
        out.again.held_s = out.forward.held_s;
      }
    }
  }

  void MakeHalves(BlockCosts& out) {
    Fill(Pass::kBackwardInput, out.input, &BlockMaker::AddSeconds);
    Fill(Pass::kBackwardWeight, out.weight, &BlockMaker::AddSeconds);
    out.has_halves = true;
  }

  // Copies of one layer's kept tensors pass several queues at once, as a pipeline. So the slowest
  // hop sets the pace. They are described as the lowering emits them, from passes that are built.
  void MakeKept(OffloadTarget target, BlockCosts& out) {
    const auto passes = [this](Pass pass) -> const Block& { return passes_.Of(pass); };
    const auto seconds = [&](InstructionKind hop) {
      const InstructionKey key{hop, Pass::kNone, block_, 0, 0};
      const StepDescription copy = ActivationCopy(context_, key, passes);
      out.kept_bytes = 0;
      for (const TensorUse& use : copy.uses) {
        if (use.life == Life::kFreed) out.kept_bytes += use.whole;
      }
      return times_.SpanOf(copy.make(), plan_);
    };
    if (!out.has_kept) out.kept_s = seconds(InstructionKind::kCopyOut);
    out.has_kept = true;
    if (target != OffloadTarget::kNvme) return;
    out.kept_nvme_s = std::max(
        {out.kept_s, seconds(InstructionKind::kNvmeWrite), seconds(InstructionKind::kNvmeRead)});
  }

  void MakeBytes(BlockCosts& out) {
    AddBytes(Pass::kForward, out.forward);
    Fill(Pass::kBackward, out.backward, &BlockMaker::AddBytes);
    if (choice_.recompute == RecomputeKind::kFull && IsLayer(choice_.kind)) {
      AddBytes(Pass::kRecompute, out.again);
    }
    out.has_bytes = true;
  }

  void MakeBytesOfHalves(BlockCosts& out) {
    Fill(Pass::kBackwardInput, out.input, &BlockMaker::AddBytes);
    Fill(Pass::kBackwardWeight, out.weight, &BlockMaker::AddBytes);
    out.has_bytes_of_halves = true;
  }

 private:
  // A layer of the kind, not the first one if there is another: the first layer's backward may make
  // an input gradient that nobody reads.
  int MiddleLayer() const {
    for (int block = 2; block <= stage_.layers; ++block) {
      if (stage_.KindOf(block) == choice_.kind) return block;
    }
    return 1;
  }

  // Leaves `to` at 0 if the block has no such pass.
  void Fill(Pass pass, PassCosts& to, void (BlockMaker::*add)(Pass, PassCosts&)) {
    if (HasPass(alone_, choice_.kind, pass)) (this->*add)(pass, to);
  }

  void AddSeconds(Pass pass, PassCosts& to) { to = times_.Of(passes_.Of(pass), plan_); }
  void AddBytes(Pass pass, PassCosts& to) {
    const auto passes = [this](Pass other) -> const Block& { return passes_.Of(other); };
    const StepMemory memory = MemoryOf(LivesIn(context_, BlockKey(pass, block_, 0), passes));
    to.peak_bytes = memory.peak_total;
    to.end_bytes = Total(memory.at_end);
  }

  Plan plan_;
  BlockChoice choice_;
  BlockTimes& times_;
  Plan alone_;
  Stage stage_;
  BucketLayout no_buckets_;
  LowerContext context_;
  Passes passes_;
  int block_ = 0;
};

namespace {

// Fields that no block reads. They decide how often, when and where a block runs, but not its ops.
// global_batch enters the scale of gradients alone. Memoization is sound because every other field
// is part of the key; the rest of what blocks read is added in KeysOf.
constexpr std::string_view kNotOfBlocks =
    "dp pp rank_order global_batch schedule schedule_slots vpp stage_layers post_validation "
    "zero_stage replicas "
    "prefetch_depth gather_bytes unsharded_bytes gather_format reduction_time bucket_bytes "
    "recompute recompute_layers recompute_every offload_optimizer offload_gradients "
    "offload_parameters "
    "offload_activations offload_fraction stream_optimizer delayed_update clip_norm";

// Key of embedding and head. With multi-token prediction the head contains layers, so it reads all
// fields of layers.
PlanKey EndKey(const ModelSpec& model, const VaryingFields& varying) {
  const VaryingFields read = Without(varying, kNotOfBlocks);
  if (model.predict_ahead > 0) return PlanKey(read);
  return PlanKey(Without(read,
                         "ep expert_tp cp_kind mlp_tiles tp_tiles moe_pieces capacity_factor "
                         "expert_headroom attention attention_dropout"));
}

}  // namespace

BlockTable::BlockTable(const ModelSpec& model, BlockTimes& times, const VaryingFields& varying)
    : model_(model),
      times_(times),
      expert_key_(Without(Without(varying, kNotOfBlocks), "vocab_parallel loss_chunks")),
      dense_key_(Without(Without(varying, kNotOfBlocks),
                         "vocab_parallel loss_chunks ep expert_tp moe_pieces capacity_factor "
                         "expert_headroom")),
      end_key_(EndKey(model, varying)) {}

BlockTable::~BlockTable() = default;

// A small cache in order of arrival. Its limit is the number of ops, which decide its memory.
// Evicting a maker costs time only: BlockCosts are kept.
BlockMaker& BlockTable::MakerOf(std::uint64_t key, const Plan& plan, const BlockChoice& choice) {
  constexpr std::size_t kMaxOps = 16'000;  // of about 500 bytes each, with names and tensors
  std::size_t ops = 0;
  for (const auto& [its_key, maker] : makers_) {
    if (its_key == key) return *maker;
    ops += maker->ops();
  }
  for (; ops > kMaxOps; makers_.pop_front()) ops -= makers_.front().second->ops();
  makers_.emplace_back(key, std::make_unique<BlockMaker>(model_, plan, choice, times_));
  return *makers_.back().second;
}

// Sizes of groups that are not fields, and places of groups, decide shapes and communication. They
// are hashed once per plan; Find then adds the choice.
BlockKeys BlockTable::KeysOf(const Plan& plan) {
  const std::uint64_t places = times_.KeyOfPlaces(plan);
  const std::uint64_t near = times_.KeyOfNearPlaces(plan);
  // Gathered parameters may arrive in another format than resident ones. The size of the world
  // sets the time lost to stragglers.
  const bool unlike = ActivationFormat(plan) != WeightFormat(plan);
  const bool gathered = unlike && ShardingOf(plan).parameters;
  const bool alone = HoldsExpertsAlone(plan);
  const bool experts_at_end = model_.predict_ahead > 0;
  const auto key = [&](const PlanKey& of, bool experts) {
    StableHash hash = of.Of(plan).Add(experts ? places : near).Add(gathered).Add(plan.World());
    return hash.Add(experts && alone).Value();
  };
  return {key(dense_key_, false), key(expert_key_, true), key(end_key_, experts_at_end)};
}

// Adds to an entry only the parts that are missing: halves if the schedule splits backwards, copies
// if activations are offloaded, bytes if they are asked for.
const BlockCosts& BlockTable::Find(const Plan& plan, const BlockChoice& choice,
                                   const BlockKeys& keys, bool bytes) {
  StableHash key;
  key.Add(!IsLayer(choice.kind)                    ? keys.ends
          : choice.kind == BlockKind::kExpertLayer ? keys.experts
                                                   : keys.dense);
  key.Add(static_cast<unsigned>(choice.kind) | static_cast<unsigned>(choice.recompute) << 8U |
          (choice.global ? 1U << 16U : 0U) | (choice.shared_table ? 1U << 17U : 0U));
  const auto [found, is_new] = figures_.try_emplace(key.Value());
  BlockCosts& figures = found->second;
  const bool halves = plan.SplitsBackward() && !figures.has_halves;
  const bool asks_bytes = bytes && !figures.has_bytes;
  const bool asks_halves = bytes && plan.SplitsBackward() && !figures.has_bytes_of_halves;
  const bool asks_kept =
      plan.offload_activations != OffloadTarget::kNone && choice.kind == BlockKind::kLayer &&
      (!figures.has_kept ||
       (plan.offload_activations == OffloadTarget::kNvme && figures.kept_nvme_s == 0));
  if (is_new || halves || asks_bytes || asks_halves || asks_kept) {
    BlockMaker& maker = MakerOf(key.Value(), plan, choice);
    if (is_new) maker.MakeWhole(figures);
    if (halves) maker.MakeHalves(figures);
    if (asks_kept) maker.MakeKept(plan.offload_activations, figures);
    if (asks_bytes) maker.MakeBytes(figures);
    if (asks_halves) maker.MakeBytesOfHalves(figures);
  }
  return figures;
}

}  // namespace foretrain
