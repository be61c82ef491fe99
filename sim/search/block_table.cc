#include "sim/search/block_table.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/cost/plan_place.h"
#include "sim/program/lower/block_memory.h"
#include "sim/program/lower/sharding.h"
#include "sim/program/precision.h"

namespace foretrain {
namespace {

// The tensor that a slot is, or is part of.
std::size_t BaseOf(const Block& block, std::int16_t slot) {
  const std::int16_t base = block.slots[static_cast<std::size_t>(slot)].base;
  return static_cast<std::size_t>(base == kNoSlot ? slot : base);
}

// Whether the op writes what goes to the block behind, or the gradient for the one before.
bool MakesBoundary(const Block& block, const Op& op) {
  const auto operands = OperandsOf(block, op);
  return std::any_of(operands.begin(), operands.end(), [&](const Operand& operand) {
    if (operand.slot == kNoSlot || operand.access == Access::kRead) return false;
    const SlotRole role = block.slots[BaseOf(block, operand.slot)].role;
    return role == SlotRole::kOutput || role == SlotRole::kInputGradient;
  });
}

void AddPlace(const GroupPlace& place, StableHash& key) {
  for (const int figure : {place.members, place.nodes, place.per_node, place.islands,
                           place.per_island, place.senders}) {
    key.Add(figure);
  }
  for (const auto& figures : {place.units, place.per_unit}) {
    for (const int figure : figures) key.Add(figure);
  }
  for (const auto& figures : {place.extent, place.stride}) {
    for (const int figure : figures) key.Add(figure);
  }
}

// The plan as memory sees its blocks: one stage that holds all layers and shares out nothing.
Plan OfOneStage(const Plan& plan, RecomputeKind recompute) {
  const Plan standard;
  Plan out = plan;
  out.recompute = recompute;
  out.recompute_layers = 0;
  out.schedule = ScheduleKind::k1f1b;
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

// Builds each pass of one block once.
class Passes {
 public:
  Passes(const ModelSpec& model, const Plan& plan, const BlockChoice& choice)
      : context_{model, plan, choice.shared_table},
        request_{.kind = choice.kind, .recompute = choice.recompute, .global = choice.global} {}

  const Block& Of(Pass pass) {
    const auto [found, is_new] = blocks_.try_emplace(pass);
    if (!is_new) return found->second;
    // Of a middle micro-batch: it adds to what the ones before it left.
    BlockRequest request = request_;
    request.pass = pass;
    request.accumulate = request.accumulate_experts = pass != Pass::kRecompute;
    request.adds_loss = pass == Pass::kForward;
    found->second = BuildBlock(context_, request);
    return found->second;
  }

 private:
  BlockContext context_;
  BlockRequest request_;
  std::map<Pass, Block> blocks_;  // references stay valid
};

// Figures of the passes of one block.
class Maker {
 public:
  Maker(const ModelSpec& model, const Plan& plan, const BlockChoice& choice, BlockTimes& times)
      : plan_(plan),
        choice_(choice),
        times_(times),
        alone_(OfOneStage(plan, choice.recompute)),
        stage_(StageOf(model, alone_, 0)),
        context_{model, alone_, stage_, no_buckets_, {}},
        passes_(model, plan, choice) {
    stage_.shared_table = choice.shared_table;
    if (choice.kind == BlockKind::kHead) block_ = stage_.layers + 1;
    // Not the first layer, whose backward may leave a gradient that nobody reads.
    if (choice.kind == BlockKind::kLayer) block_ = std::min(2, stage_.dense_layers);
    if (choice.kind == BlockKind::kExpertLayer) block_ = stage_.layers;
  }

  void MakeWhole(BlockFigures& out) {
    AddSeconds(Pass::kForward, out.forward);
    for (const TensorSlot& slot : passes_.Of(Pass::kForward).slots) {
      const bool kept = slot.role == SlotRole::kInput || slot.role == SlotRole::kSaved;
      if (kept && slot.base == kNoSlot) out.kept_bytes += slot.bytes;
    }
    Fill(Pass::kBackward, out.backward, &Maker::AddSeconds);
    if (IsLayer(choice_.kind) && choice_.recompute == RecomputeKind::kFull) {
      AddSeconds(Pass::kRecompute, out.again);
      if (times_.whole_recompute()) {
        out.again.span_s = out.forward.span_s;
        out.again.compute_s = out.forward.compute_s;
      }
    }
  }

  void MakeHalves(BlockFigures& out) {
    Fill(Pass::kBackwardInput, out.input, &Maker::AddSeconds);
    Fill(Pass::kBackwardWeight, out.weight, &Maker::AddSeconds);
    out.has_halves = true;
  }

  void MakeBytes(BlockFigures& out) {
    AddBytes(Pass::kForward, out.forward);
    Fill(Pass::kBackward, out.backward, &Maker::AddBytes);
    if (choice_.recompute == RecomputeKind::kFull && IsLayer(choice_.kind)) {
      AddBytes(Pass::kRecompute, out.again);
    }
    out.has_bytes = true;
  }

  void MakeBytesOfHalves(BlockFigures& out) {
    Fill(Pass::kBackwardInput, out.input, &Maker::AddBytes);
    Fill(Pass::kBackwardWeight, out.weight, &Maker::AddBytes);
    out.has_bytes_of_halves = true;
  }

 private:
  void Fill(Pass pass, PassFigures& to, void (Maker::*add)(Pass, PassFigures&)) {
    if (HasPass(alone_, choice_.kind, pass)) (this->*add)(pass, to);
  }

  void AddSeconds(Pass pass, PassFigures& to) { to = times_.Of(passes_.Of(pass), plan_); }
  void AddBytes(Pass pass, PassFigures& to) {
    const StepMemory memory =
        MemoryOfBlock(context_, BlockKey(pass, block_, 0),
                      [this](Pass other) -> const Block& { return passes_.Of(other); });
    to.peak_bytes = memory.peak_total;
    to.end_bytes = Total(memory.at_end);
  }

  const Plan& plan_;
  const BlockChoice& choice_;
  BlockTimes& times_;
  Plan alone_;
  Stage stage_;
  BucketLayout no_buckets_;
  LowerContext context_;
  Passes passes_;
  int block_ = 0;
};

// What no block reads; global_batch is in the scale of gradients alone.
constexpr std::array<std::string_view, 25> kNotOfBlocks = {"dp",
                                                           "pp",
                                                           "global_batch",
                                                           "schedule",
                                                           "vpp",
                                                           "stage_layers",
                                                           "post_validation",
                                                           "zero_stage",
                                                           "replicas",
                                                           "prefetch_depth",
                                                           "gather_bytes",
                                                           "unsharded_bytes",
                                                           "gather_format",
                                                           "reduction_time",
                                                           "bucket_bytes",
                                                           "recompute",
                                                           "recompute_layers",
                                                           "offload_optimizer",
                                                           "offload_gradients",
                                                           "offload_parameters",
                                                           "offload_activations",
                                                           "offload_fraction",
                                                           "stream_optimizer",
                                                           "delayed_update",
                                                           "clip_norm"};

VaryingFields Without(const VaryingFields& varying) {
  VaryingFields fields;
  for (const PlanField* field : varying) {
    const auto found = std::find(kNotOfBlocks.begin(), kNotOfBlocks.end(), field->name);
    if (found == kNotOfBlocks.end()) fields.push_back(field);
  }
  return fields;
}

// Of embedding and head. Beside the head lie the layers that predict further tokens.
PlanKey EndKey(const ModelSpec& model, const VaryingFields& varying) {
  if (model.predict_ahead > 0) return PlanKey(Without(varying), {});
  return PlanKey(Without(varying),
                 {"ep", "expert_tp", "cp_kind", "mlp_tiles", "tp_tiles", "moe_pieces",
                  "capacity_factor", "expert_headroom", "attention", "attention_dropout"});
}

}  // namespace

BlockTimes::BlockTimes(const CostModel& costs, const VaryingFields& varying)
    : costs_(costs),
      place_key_(varying, {"micro_batch",
                           "sequence",
                           "global_batch",
                           "recompute",
                           "recompute_layers",
                           "sequence_parallel",
                           "vocab_parallel",
                           "cp_kind",
                           "loss_chunks",
                           "mlp_tiles",
                           "tp_tiles",
                           "moe_pieces",
                           "fuse",
                           "attention",
                           "dropout",
                           "attention_dropout",
                           "reduction_time",
                           "prefetch_depth",
                           "offload_optimizer",
                           "offload_gradients",
                           "offload_parameters",
                           "offload_activations",
                           "bucket_bytes",
                           "gather_bytes",
                           "unsharded_bytes"}) {
  const bool is_cpu = costs.cluster().is_cpu;
  if (!is_cpu && costs.levels().size() > 1)
    slowdown_ = costs.profile().rates.overlap_slowdown.value;
  const double busy = is_cpu ? costs.cluster().devices_per_node : 1;
  gap_s_ = costs.Overhead(OverheadKind::kGap, busy);
  wake_s_ = costs.Overhead(OverheadKind::kWake, busy);
}

GroupPlace BlockTimes::PlaceOf(const Plan& plan, GroupKind group) {
  if (group == GroupKind::kNone) return {};
  const std::uint64_t key = place_key_.Of(plan).Add(group).Value();
  const auto [found, is_new] = places_.try_emplace(key);
  if (is_new) {
    found->second = PlaceOfGroup(costs_.cluster(), plan, {}, group, GroupMembers(plan, {}, group));
  }
  return found->second;
}

std::uint64_t BlockTimes::KeyOf(const Plan& plan, std::initializer_list<GroupKind> groups,
                                std::unordered_map<std::uint64_t, std::uint64_t>& known) {
  const auto [found, is_new] = known.try_emplace(place_key_.Of(plan).Value());
  if (is_new) {
    StableHash key;
    for (const GroupKind group : groups) AddPlace(PlaceOf(plan, group), key);
    found->second = key.Value();
  }
  return found->second;
}

std::uint64_t BlockTimes::KeyOfPlaces(const Plan& plan) {
  return KeyOf(plan, {GroupKind::kTp, GroupKind::kCp, GroupKind::kEp}, keys_of_places_);
}

std::uint64_t BlockTimes::KeyOfNearPlaces(const Plan& plan) {
  return KeyOf(plan, {GroupKind::kTp, GroupKind::kCp}, keys_of_near_places_);
}

std::uint64_t BlockTimes::KeyOfDataPlaces(const Plan& plan) {
  return KeyOf(plan, {GroupKind::kDp, GroupKind::kShard, GroupKind::kReplica, GroupKind::kExpertDp},
               keys_of_data_places_);
}

PassFigures BlockTimes::Of(const Block& block, const Plan& plan) {
  const bool is_cpu = costs_.cluster().is_cpu;
  const bool blocking_tp = costs_.profile().system.blocking_tp;
  const double straggling = costs_.Straggling(plan.World());
  std::array<double, kQueueCount> free{};
  std::vector<double> written(block.slots.size(), 0.0);
  double launches_s = 0, communication_s = 0, made_s = 0;
  const std::optional<GroupPlace> scattered =
      costs_.Scatters(plan) ? std::optional(PlaceOf(plan, GroupKind::kTp)) : std::nullopt;
  PassFigures out;
  for (const Op& op : block.ops) {
    double& queue_free = free[static_cast<std::size_t>(op.queue)];
    double ready = 0;
    for (const Operand& operand : OperandsOf(block, op)) {
      if (operand.slot != kNoSlot) ready = std::max(ready, written[BaseOf(block, operand.slot)]);
    }
    const OpCost cost =
        costs_.CostOf(op, PlaceOf(plan, op.group), scattered ? &*scattered : nullptr);
    double length = is_cpu ? cost.seconds.back() : cost.seconds.front();
    if (IsCompute(op.op_class)) length *= straggling;
    const double start = ready > queue_free ? ready + wake_s_ : queue_free;
    const double end = start + length;
    queue_free = end + gap_s_;
    for (const Operand& operand : OperandsOf(block, op)) {
      if (operand.slot == kNoSlot || operand.access == Access::kRead) continue;
      double& at = written[BaseOf(block, operand.slot)];
      at = std::max(at, end);
    }
    launches_s += cost.launch_s;
    if (op.queue == Queue::kCompute) out.compute_s += length + gap_s_;
    if (blocking_tp && op.op_class == OpClass::kTpComm) {
      double& compute_free = free[static_cast<std::size_t>(Queue::kCompute)];
      compute_free = std::max(compute_free, end);
    }
    // The neighbour does not wait for the gap.
    if (MakesBoundary(block, op)) made_s = std::max(0.0, out.compute_s - gap_s_);
    if (IsCommunication(op.op_class)) communication_s += length;
    out.span_s = std::max(out.span_s, queue_free);
  }
  out.tail_s = out.compute_s - made_s;
  const double beside_s = std::max(0.0, out.compute_s + communication_s - out.span_s);
  out.span_s += std::min(beside_s, communication_s) * (slowdown_ - 1);
  out.span_s = std::max(out.span_s, launches_s);
  return out;
}

BlockTable::BlockTable(const ModelSpec& model, BlockTimes& times, const VaryingFields& varying)
    : model_(model),
      times_(times),
      expert_key_(Without(varying), {"vocab_parallel", "loss_chunks"}),
      dense_key_(Without(varying), {"vocab_parallel", "loss_chunks", "ep", "expert_tp",
                                    "moe_pieces", "capacity_factor", "expert_headroom"}),
      end_key_(EndKey(model, varying)) {}

BlockKeys BlockTable::KeysOf(const Plan& plan) {
  const std::uint64_t places = times_.KeyOfPlaces(plan);
  const std::uint64_t near = times_.KeyOfNearPlaces(plan);
  // What is gathered for its use may be in another format, and slow devices are waited for.
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

const BlockFigures& BlockTable::Find(const Plan& plan, const BlockChoice& choice,
                                     const BlockKeys& keys, bool bytes) {
  StableHash key;
  key.Add(choice.kind == BlockKind::kLayer         ? keys.dense
          : choice.kind == BlockKind::kExpertLayer ? keys.experts
                                                   : keys.ends);
  key.Add(static_cast<unsigned>(choice.kind) | static_cast<unsigned>(choice.recompute) << 8U |
          (choice.global ? 1U << 16U : 0U) | (choice.shared_table ? 1U << 17U : 0U));
  const auto [found, is_new] = figures_.try_emplace(key.Value());
  BlockFigures& figures = found->second;
  const bool halves = SplitsBackward(plan.schedule) && !figures.has_halves;
  const bool asks_bytes = bytes && !figures.has_bytes;
  const bool asks_halves = bytes && SplitsBackward(plan.schedule) && !figures.has_bytes_of_halves;
  if (is_new || halves || asks_bytes || asks_halves) {
    Maker maker(model_, plan, choice, times_);
    if (is_new) maker.MakeWhole(figures);
    if (halves) maker.MakeHalves(figures);
    if (asks_bytes) maker.MakeBytes(figures);
    if (asks_halves) maker.MakeBytesOfHalves(figures);
  }
  return figures;
}

}  // namespace foretrain
