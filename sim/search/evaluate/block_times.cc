#include "sim/search/evaluate/block_times.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "sim/cost/network/plan_place.h"

namespace foretrain {
namespace {

// Index of a slot's tensor: the slot itself, or the tensor that it views.
std::size_t BaseOf(const Block& block, std::int16_t slot) {
  const std::int16_t base = block.slots[static_cast<std::size_t>(slot)].base;
  return static_cast<std::size_t>(base == kNoSlot ? slot : base);
}

// True if the op writes the output for the next block or the input gradient for the previous one.
bool MakesBoundary(const Block& block, const Op& op) {
  const auto operands = OperandsOf(block, op);
  return std::any_of(operands.begin(), operands.end(), [&](const Operand& operand) {
    if (operand.slot == kNoSlot || operand.access == Access::kRead) return false;
    const SlotRole role = block.slots[BaseOf(block, operand.slot)].role;
    return role == SlotRole::kOutput || role == SlotRole::kInputGradient;
  });
}

// Costs of collectives read a place only through these numbers. So two groups with equal numbers
// have equal costs, whatever their ranks are.
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

// Fields that cannot move a rank to another device.
constexpr std::string_view kNotOfPlaces =
    "micro_batch sequence global_batch recompute recompute_modules recompute_layers "
    "recompute_every sequence_parallel "
    "vocab_parallel cp_kind loss_chunks mlp_tiles tp_tiles moe_pieces fuse attention dropout "
    "attention_dropout reduction_time prefetch_depth offload_optimizer offload_gradients "
    "offload_parameters offload_activations bucket_bytes gather_bytes unsharded_bytes";

}  // namespace

BlockTimes::BlockTimes(const CostModel& costs, const VaryingFields& varying)
    : costs_(costs), place_key_(Without(varying, kNotOfPlaces)) {
  const bool is_cpu = costs.cluster().is_cpu;
  if (!is_cpu && costs.levels().size() > 1)
    slowdown_ = costs.profile().rates.overlap_slowdown.value;
  const double busy = is_cpu ? costs.cluster().devices_per_node : 1;
  gap_s_ = costs.Overhead(OverheadKind::kGap, busy);
  wake_s_ = costs.Overhead(OverheadKind::kWake, busy);
}

namespace {

// Place of the first stage's transfers, or of the first ones that leave the unit. A node may hold
// several stages, and the slowest transfers set the pace of a pipeline.
GroupPlace PlaceOfTransfers(const ClusterSpec& cluster, const Plan& plan, GroupKind group) {
  GroupPlace first;
  const int direction = group == GroupKind::kNext ? 0 : 1;
  for (int pp = 0; pp + 1 < plan.pp; ++pp) {
    const RankCoordinates at{.pp = pp + direction};
    const GroupPlace place = PlaceOfGroup(cluster, plan, at, group, GroupMembers(plan, at, group));
    if (pp == 0) first = place;
    if (place.nodes > 1) return place;
  }
  return first;
}

}  // namespace

// The first rank stands for all: groups of one kind are laid out alike, but for transfers between
// stages. Memoized, because listing members costs O(members).
GroupPlace BlockTimes::PlaceOf(const Plan& plan, GroupKind group) {
  if (group == GroupKind::kNone) return {};
  const std::uint64_t key = place_key_.Of(plan).Add(group).Value();
  const auto [found, is_new] = places_.try_emplace(key);
  if (is_new) {
    const ClusterSpec& cluster = costs_.cluster();
    const bool transfers = group == GroupKind::kNext || group == GroupKind::kPrev;
    found->second = transfers
                        ? PlaceOfTransfers(cluster, plan, group)
                        : PlaceOfGroup(cluster, plan, {}, group, GroupMembers(plan, {}, group));
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

namespace {

// Lower bound on how long a pass holds the compute queue. Counts from the start of its first
// compute op. Ops that wait for none of the pass's compute ops have an unknown end, so nothing is
// charged for waiting on them: prefetch may have finished them.
class Held {
 public:
  explicit Held(std::size_t slots) : written_(slots, kUnknown) {
    free_.fill(kUnknown);
    free_[static_cast<std::size_t>(Queue::kCompute)] = 0;
  }
  // Adds the next op. `held_up`: the compute queue waits until it ends.
  void Run(const Block& block, const Op& op, double length_s, double gap_s, bool held_up) {
    double& queue_free = free_[static_cast<std::size_t>(op.queue)];
    double start = queue_free;
    for (const Operand& operand : OperandsOf(block, op)) {
      if (operand.slot != kNoSlot) start = std::max(start, written_[BaseOf(block, operand.slot)]);
    }
    if (start == kUnknown) return;
    const double end = start + length_s;
    queue_free = op.queue == Queue::kHost ? end : end + gap_s;
    for (const Operand& operand : OperandsOf(block, op)) {
      if (operand.slot == kNoSlot || operand.access == Access::kRead) continue;
      double& at = written_[BaseOf(block, operand.slot)];
      at = std::max(at, end);
    }
    double& computed = free_[static_cast<std::size_t>(Queue::kCompute)];
    if (held_up) computed = std::max(computed, end);
    if (MakesBoundary(block, op)) made_s_ = std::max(made_s_, end);
  }
  double held_s() const { return free_[static_cast<std::size_t>(Queue::kCompute)]; }
  double made_s() const { return made_s_; }  // end of the last boundary tensor

 private:
  static constexpr double kUnknown = -1;  // before any compute op of the pass
  std::array<double, kQueueCount> free_;
  std::vector<double> written_;  // by slot: end of the last write
  double made_s_ = 0;
};

}  // namespace

// A list schedule: queues run in order, and reads wait for the writes before them. A single pass
// over the ops is exact for this machine model. Contention is added at the end, on the time in
// which both kinds of work run.
PassCosts BlockTimes::Of(const Block& block, const Plan& plan) {
  const bool is_cpu = costs_.cluster().is_cpu;
  const bool blocking_tp = costs_.profile().system.blocking_tp;
  const double straggling = costs_.Straggling(plan.World());
  std::array<double, kQueueCount> free{};
  std::vector<double> written(block.slots.size(), 0.0);
  double launches_s = 0, communication_s = 0;
  Held held(block.slots.size());
  const std::optional<GroupPlace> scattered =
      costs_.Scatters(plan) ? std::optional(PlaceOf(plan, GroupKind::kTp)) : std::nullopt;
  PassCosts out;
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
    // A queue that had to wait pays for its wake-up.
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
    const bool held_up = blocking_tp && op.op_class == OpClass::kTpComm;
    held.Run(block, op, length, gap_s_, held_up);
    if (held_up) {
      double& compute_free = free[static_cast<std::size_t>(Queue::kCompute)];
      compute_free = std::max(compute_free, end);
    }
    if (IsCommunication(op.op_class)) communication_s += length;
    out.span_s = std::max(out.span_s, queue_free);
  }
  out.held_s = held.held_s();
  out.tail_s = std::max(0.0, out.held_s - held.made_s());
  const double beside_s = std::max(0.0, out.compute_s + communication_s - out.span_s);
  out.span_s += std::min(beside_s, communication_s) * (slowdown_ - 1);
  out.span_s = std::max(out.span_s, launches_s);
  return out;
}

}  // namespace foretrain
