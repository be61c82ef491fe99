#include <algorithm>
#include <map>
#include <tuple>

#include "base/result.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/lower/layout/sharding.h"
#include "sim/program/lower/model/model_block.h"
#include "sim/program/lower/model/recompute.h"
#include "sim/program/lower/offload/offload_state.h"
#include "sim/program/lower/rank/lowerings.h"
#include "sim/program/lower/transfers/boundaries.h"
#include "sim/program/schedules/transfers.h"

namespace foretrain {
namespace {

// The block passes of a slot, in order.
std::vector<SkeletonStep> PassesOf(const LowerContext& context, const Chunk& chunk,
                                   const Slot& slot) {
  std::vector<SkeletonStep> steps;
  if (slot.pass == Pass::kForward) {
    for (int block = chunk.first_block; block <= chunk.last_block; ++block) {
      steps.push_back(BlockStep(slot.pass, block, slot.micro_batch));
      steps.back().ahead = slot.for_next_step;
    }
    return steps;
  }
  for (int block = chunk.last_block; block >= chunk.first_block; --block) {
    if (!HasPass(context.plan, context.stage.KindOf(block), slot.pass)) continue;
    steps.push_back(BlockStep(slot.pass, block, slot.micro_batch));
  }
  return steps;
}

// Writes the steps of one rank's slots.
class Writer {
 public:
  Writer(const LowerContext& context, Skeleton& skeleton)
      : context_(context), stage_(context.stage), skeleton_(skeleton) {
    const int stages = Placement(context.plan).stages();
    for (int s = 0; s < stages; ++s) {
      blocks_.push_back(BlocksOfStage(context.model, context.plan, s));
    }
  }

  // A slot is surrounded by its receives and its send; a pair is zipped.
  void Add(const std::vector<SlotWithTransfers>& slots) {
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (slots[i].slot.paired) {
        AddPair(slots[i], slots[i + 1]);
        ++i;
        continue;
      }
      Enter(slots[i]);
      for (const SkeletonStep& step : PassesOf(context_, ChunkOf(slots[i]), slots[i].slot)) {
        skeleton_.push_back(step);
      }
      Leave(slots[i]);
    }
  }

 private:
  const Chunk& ChunkOf(const SlotWithTransfers& slot) const {
    return stage_.chunks[static_cast<std::size_t>(slot.slot.chunk)];
  }
  // The block that makes a stage's boundary tensor: the last one in a forward, the first one in a
  // backward.
  int MakerOf(const Transfer& transfer) const {
    const Chunk& blocks = blocks_[static_cast<std::size_t>(transfer.stage)];
    return transfer.pass == Pass::kForward ? blocks.last_block : blocks.first_block;
  }

  void Enter(const SlotWithTransfers& slot) {
    const Chunk& chunk = ChunkOf(slot);
    if (slot.slot.pass == Pass::kForward && LoadsBatch(context_.plan, stage_, chunk)) {
      skeleton_.push_back(LoadStep(stage_, chunk, slot.slot.micro_batch));
      skeleton_.back().ahead = slot.slot.for_next_step;
    }
    for (const Transfer& t : slot.receives) {
      skeleton_.push_back(RecvStep(t.pass, MakerOf(t), t.micro_batch, t.down));
      skeleton_.back().ahead = t.for_next_step;
    }
  }
  void Leave(const SlotWithTransfers& slot) {
    if (!slot.send) return;
    const Transfer& t = *slot.send;
    skeleton_.push_back(SendStep(t.pass, MakerOf(t), t.micro_batch, t.down));
    skeleton_.back().ahead = t.for_next_step;
  }

  // Interleaves the two slots layer by layer and piece by piece. While a piece of one waits for
  // communication, the other computes.
  void AddPair(const SlotWithTransfers& one, const SlotWithTransfers& other) {
    Enter(one);
    Enter(other);
    const std::vector<SkeletonStep> a = PassesOf(context_, ChunkOf(one), one.slot);
    const std::vector<SkeletonStep> b = PassesOf(context_, ChunkOf(other), other.slot);
    for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
      AddInTurn(i < a.size() ? PiecesOfStep(a[i]) : std::vector<SkeletonStep>(),
                i < b.size() ? PiecesOfStep(b[i]) : std::vector<SkeletonStep>());
      if (i + 1 == a.size()) Leave(one);
    }
    // The second send follows the first, as the receiver expects.
    Leave(other);
  }

  void AddInTurn(const std::vector<SkeletonStep>& a, const std::vector<SkeletonStep>& b) {
    for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
      if (i < a.size()) skeleton_.push_back(a[i]);
      if (i < b.size()) skeleton_.push_back(b[i]);
    }
  }

  // A gathered or copied parameter lives for one instruction, so blocks with such copies stay
  // whole. Counts are memoized by kind, pass and recomputation, which decide the ops.
  std::vector<SkeletonStep> PiecesOfStep(const SkeletonStep& step) {
    const auto& [kind, pass, block, micro_batch, part] = step.key;
    const auto [count, is_new] = pieces_.try_emplace(
        {stage_.KindOf(block), pass, RecomputeOf(context_.plan, stage_, block)}, 1);
    const bool copied =
        ShardingOf(context_.plan).parameters || ParameterSpace(context_.plan) != Space::kDevice;
    if (is_new && !copied) {
      count->second = PiecesOf(context_, pass, block);
    }
    if (count->second == 1) return {step};
    std::vector<SkeletonStep> pieces;
    for (int piece = 0; piece < count->second; ++piece) {
      pieces.push_back(PieceStep(pass, block, micro_batch, piece));
    }
    return pieces;
  }

  const LowerContext& context_;
  const Stage& stage_;
  Skeleton& skeleton_;
  std::vector<Chunk> blocks_;  // by stage
  std::map<std::tuple<BlockKind, Pass, RecomputeKind>, int> pieces_;
};

// The forward slots alone, in their order and with the transfers of forwards. Receives that came
// before a backward come before the next forward, so that both sides keep one order.
std::vector<SlotWithTransfers> ForwardsOf(const std::vector<SlotWithTransfers>& slots) {
  std::vector<SlotWithTransfers> forwards;
  std::vector<Transfer> receives;
  for (const SlotWithTransfers& slot : slots) {
    for (const Transfer& transfer : slot.receives) {
      if (transfer.pass == Pass::kForward) receives.push_back(transfer);
    }
    if (slot.slot.pass != Pass::kForward) continue;
    SlotWithTransfers& forward = forwards.emplace_back(slot);
    forward.receives.swap(receives);
    forward.slot.paired = false;
    receives.clear();
  }
  FT_CHECK(receives.empty());
  return forwards;
}

}  // namespace

// The schedule decides the order of slots and transfers (sim/program/schedules). This turns each
// into steps and runs first, because all other strategies insert around its block passes.
void LowerPipeline(const LowerContext& context, Skeleton& skeleton) {
  const Plan& plan = context.plan;
  const auto slots = SlotsWithTransfers(plan.schedule, PipelineShapeOf(plan), context.at.pp);
  Writer(context, skeleton).Add(context.evaluates ? ForwardsOf(slots) : slots);
}

}  // namespace foretrain
