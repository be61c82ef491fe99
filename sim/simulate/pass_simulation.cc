#include "sim/simulate/pass_simulation.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "sim/config/schedule/placement.h"
#include "sim/cost/network/plan_place.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/ir/precision.h"
#include "sim/program/lower/layout/stage.h"
#include "sim/program/lower/model/recompute.h"
#include "sim/program/lower/transfers/transfer_blocks.h"

namespace foretrain {
namespace {

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }

// A block with the duration of each op in seconds.
struct TimedBlock {
  Block block;
  std::vector<double> seconds;
  double error_s = 0;  // sum over ops of relative error * seconds
};

// The blocks of a plan. Each distinct block is built and costed once.
class TimedBlocks {
 public:
  TimedBlocks(const ModelSpec& model, const Plan& plan, const CostModel& costs)
      : model_(model), plan_(plan), costs_(costs), straggling_(costs.Straggling(plan.World())) {}

  // The block of a middle micro-batch, which adds to the gradients of those before it.
  const TimedBlock& Of(const Stage& stage, int block, Pass pass) {
    const BlockRequest request{
        .kind = stage.KindOf(block),
        .pass = pass,
        .accumulate = pass != Pass::kRecompute,
        .adds_loss = pass == Pass::kForward,
        .recompute = RecomputeOf(plan_, stage, block),
        .accumulate_experts = pass != Pass::kRecompute,
        .global = IsLayer(stage.KindOf(block)) && IsGlobal(model_, plan_, block)};
    const auto [found, is_new] = blocks_.try_emplace(
        {request.kind, pass, request.recompute, request.global, stage.shared_table});
    if (is_new) {
      found->second = Timed(BuildBlock({model_, plan_, stage.shared_table}, request));
    }
    return found->second;
  }

  // Seconds to send a boundary tensor to a neighbour stage; 0 with one stage.
  double SendSeconds() {
    if (plan_.pp == 1) return 0;
    const TimedBlock send =
        Timed(SendBlock(BoundaryElements(model_, plan_), true, ActivationFormat(plan_)));
    return send.seconds.front();
  }

 private:
  // Costs each op alone, without contention. Compute ops are slower by the expected straggling of
  // ranks.
  TimedBlock Timed(Block block) {
    TimedBlock out{std::move(block), {}, 0};
    for (const Op& op : out.block.ops) {
      const OpCost cost = costs_.CostOf(op, PlaceOf(op.group));
      double seconds = cost.Alone();
      if (IsCompute(op.op_class)) seconds *= straggling_;
      out.seconds.push_back(seconds);
      out.error_s += cost.error * seconds;
    }
    return out;
  }

  const GroupPlace& PlaceOf(GroupKind kind) {
    const auto [found, is_new] = places_.try_emplace(kind);
    if (is_new && kind != GroupKind::kNone) {
      found->second =
          PlaceOfGroup(costs_.cluster(), plan_, {}, kind, GroupMembers(plan_, {}, kind));
    }
    return found->second;
  }

  const ModelSpec& model_;
  const Plan& plan_;
  const CostModel& costs_;
  double straggling_;
  std::map<std::tuple<BlockKind, Pass, RecomputeKind, bool, bool>, TimedBlock> blocks_;
  std::map<GroupKind, GroupPlace> places_;
};

// Plays the ops of consecutive blocks on the queues of one rank, in order and without a host.
class OpPlayer {
 public:
  OpPlayer(double gap_s, double wake_s) : gap_s_(gap_s), wake_s_(wake_s) {}

  // Plays one block. `block_number` counts within the model. The tensor handed over by the previous
  // block is available from the time at which it was written.
  void Play(const TimedBlock& timed, int block_number, Pass pass) {
    const Block& block = timed.block;
    error_s_ += timed.error_s;
    std::vector<double> written(block.slots.size(), 0.0);
    for (std::size_t s = 0; s < block.slots.size(); ++s) written[s] = ThereSince(block.slots[s]);
    double handed_s = 0;
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
      const Op& op = block.ops[i];
      double ready_s = 0;
      // An op waits for the last writer of each operand. Views share the time of the tensor they
      // are part of.
      for (const Operand& operand : OperandsOf(block, op)) {
        if (operand.slot != kNoSlot) ready_s = std::max(ready_s, written[BaseOf(block, operand)]);
      }
      const double end_s = Run(op, timed.seconds[i], ready_s);
      ops_.push_back({block_number, pass, static_cast<std::int32_t>(i), op.queue,
                      end_s - timed.seconds[i], end_s});
      for (const Operand& operand : OperandsOf(block, op)) {
        if (operand.slot == kNoSlot || operand.access == Access::kRead) continue;
        const std::size_t base = BaseOf(block, operand);
        written[base] = std::max(written[base], end_s);
        const SlotRole role = block.slots[base].role;
        if (role == SlotRole::kOutput || role == SlotRole::kInputGradient) handed_s = end_s;
        if (role == SlotRole::kSaved) saved_s_[block.slots[base].index] = written[base];
      }
    }
    // A recomputed block hands nothing to the next block; its saved tensors serve its own backward
    // pass.
    if (pass == Pass::kRecompute) return;
    handed_s_ = handed_s;
    saved_s_.clear();
  }

  PassTime Time() const {
    const double length_s = free_s_[static_cast<std::size_t>(Queue::kCompute)];
    return {length_s, std::min(length_s, handed_s_)};
  }
  std::vector<PassOp> TakeOps() { return std::move(ops_); }
  double error_s() const { return error_s_; }

 private:
  static std::size_t BaseOf(const Block& block, const Operand& operand) {
    const std::int16_t base = block.slots[At(operand.slot)].base;
    return At(base == kNoSlot ? operand.slot : base);
  }

  // Time from which the tensor in `slot` is available; 0: it was there before the pass.
  double ThereSince(const TensorSlot& slot) const {
    if (slot.role == SlotRole::kInput || slot.role == SlotRole::kOutputGradient) return handed_s_;
    const auto saved = saved_s_.find(slot.index);
    return slot.role == SlotRole::kSaved && saved != saved_s_.end() ? saved->second : 0.0;
  }

  // Runs an op on its queue and returns its end. A queue that had to wait needs wake_s to go on.
  double Run(const Op& op, double seconds, double ready_s) {
    double& free_s = free_s_[static_cast<std::size_t>(op.queue)];
    const double start_s = ready_s > free_s ? ready_s + wake_s_ : free_s;
    free_s = start_s + seconds + gap_s_;
    return start_s + seconds;
  }

  double gap_s_, wake_s_;
  std::array<double, kQueueCount> free_s_{};
  double handed_s_ = 0;                     // time at which the previous block wrote its output
  std::map<std::int32_t, double> saved_s_;  // write times of rebuilt saved tensors, by index
  std::vector<PassOp> ops_;
  double error_s_ = 0;
};

// Plays the passes of one chunk of layers.
class ChunkPlayer {
 public:
  ChunkPlayer(const ModelSpec& model, const Plan& plan, const CostModel& costs)
      : plan_(plan),
        blocks_(model, plan, costs),
        gap_s_(costs.Overhead(OverheadKind::kGap, 1)),
        wake_s_(costs.Overhead(OverheadKind::kWake, 1)) {}

  ChunkPlay Play(const Stage& stage, const Chunk& chunk) {
    ChunkPlay out;
    out.times.forward = Run(stage, chunk, Pass::kForward, out.forward);
    if (!plan_.SplitsBackward()) {
      out.times.backward = Run(stage, chunk, Pass::kBackward, out.backward);
      return out;
    }
    out.times.input = Run(stage, chunk, Pass::kBackwardInput, out.input);
    out.times.weight_s = Run(stage, chunk, Pass::kBackwardWeight, out.weight).length_s;
    return out;
  }

  double SendSeconds() { return blocks_.SendSeconds(); }
  double wake_s() const { return wake_s_; }
  double gap_s() const { return gap_s_; }
  double RelativeError() const { return busy_s_ > 0 ? error_s_ / busy_s_ : 0; }

 private:
  // Plays one pass of a chunk. Backward passes take the blocks in reverse order, and each
  // recomputed block is played right before its own backward pass.
  PassTime Run(const Stage& stage, const Chunk& chunk, Pass pass, std::vector<PassOp>& ops) {
    OpPlayer player(gap_s_, wake_s_);
    const int blocks = chunk.last_block - chunk.first_block + 1;
    for (int i = 0; i < blocks; ++i) {
      const int block = pass == Pass::kForward ? chunk.first_block + i : chunk.last_block - i;
      const bool rebuilt = RecomputeOf(plan_, stage, block) == RecomputeKind::kFull &&
                           pass != Pass::kForward && pass != Pass::kBackwardWeight;
      if (rebuilt) player.Play(blocks_.Of(stage, block, Pass::kRecompute), block, Pass::kRecompute);
      if (!HasPass(plan_, stage.KindOf(block), pass)) continue;
      player.Play(blocks_.Of(stage, block, pass), block, pass);
    }
    ops = player.TakeOps();
    error_s_ += player.error_s();
    for (const PassOp& op : ops) busy_s_ += op.end_s - op.start_s;
    return player.Time();
  }

  const Plan& plan_;
  TimedBlocks blocks_;
  double gap_s_, wake_s_;
  double error_s_ = 0, busy_s_ = 0;  // sums over all ops played
};

}  // namespace

const std::vector<PassOp>& ChunkPlay::OpsOf(Pass pass) const {
  if (pass == Pass::kForward) return forward;
  if (pass == Pass::kBackwardInput) return input;
  return pass == Pass::kBackwardWeight ? weight : backward;
}

// Each chunk is played once per kind of pass; the schedule then repeats these times for all
// micro-batches.
Result<PassSimulation> SimulatePasses(
    const ModelSpec& model, const Plan& plan, const CostModel& costs,
    const std::function<void(int rank, int chunk, ChunkTimes& times)>& lengthen) {
  FT_TRY(ValidatePlan(plan, model));
  if (plan.StepsOverlap()) {
    return Fail(ErrorCode::kUnsupported,
                "steps of this schedule overlap; simulate its program instead");
  }
  PassSimulation out;
  out.chunks_of_rank = Placement(plan).chunks();
  ChunkPlayer player(model, plan, costs);
  std::vector<ChunkTimes> times;
  for (int pp = 0; pp < plan.pp; ++pp) {
    const Stage stage = StageOf(model, plan, pp);
    for (std::size_t c = 0; c < stage.chunks.size(); ++c) {
      out.chunks.push_back(player.Play(stage, stage.chunks[c]));
      if (lengthen) lengthen(pp, static_cast<int>(c), out.chunks.back().times);
      times.push_back(out.chunks.back().times);
    }
  }
  out.relative_error = player.RelativeError();
  out.slots = PlaySlots(plan.schedule, PipelineShapeOf(plan), times,
                        {player.SendSeconds(), player.wake_s(), player.gap_s()});
  return out;
}

}  // namespace foretrain
