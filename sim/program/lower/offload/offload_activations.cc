// Offloads saved activations to pinned memory or NVMe until their backward. Rhu et al. 2016 (vDNN);
// Rajbhandari et al. 2021 (ZeRO-Infinity), s. 5.
#include "sim/program/lower/offload/offload_activations.h"

#include <map>
#include <utility>
#include <vector>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/lower/model/recompute.h"
#include "sim/program/lower/rank/lowerings.h"
#include "sim/program/lower/transfers/transfer_steps.h"

namespace foretrain {
namespace {

// Index of a layer's input among its offloaded tensors; saved tensors have smaller ones.
constexpr int kInputIndex = kFirstHeld;

// Tensors that a layer's forward leaves for its backward: its input and its saved tensors. Tensors
// that nothing reads again, because weights are frozen, are left out.
std::vector<TensorSlot> KeptSlots(const LowerContext& context, int block,
                                  const PassBlocks& passes) {
  const SlotNames read =
      TouchedAfter(context, {InstructionKind::kBlock, Pass::kForward, block}, passes);
  std::vector<TensorSlot> kept;
  for (const TensorSlot& slot : passes(Pass::kForward).slots) {
    if (slot.role != SlotRole::kInput && slot.role != SlotRole::kSaved) continue;
    if (read.contains({slot.role, slot.index})) kept.push_back(slot);
  }
  return kept;
}

TensorName NameOnDevice(const TensorSlot& slot, const InstructionKey& key) {
  if (slot.role == SlotRole::kInput) {
    return {TensorKind::kActivation, key.block - 1, key.micro_batch};
  }
  return {TensorKind::kSaved, key.block, key.micro_batch, slot.index};
}
TensorName OffloadedName(const TensorSlot& slot, const InstructionKey& key) {
  const int index = slot.role == SlotRole::kInput ? kInputIndex : slot.index;
  return {TensorKind::kAway, key.block, key.micro_batch, index};
}

struct NamedRoute {
  const char* name;
  Space from;
  Space to;
};
NamedRoute RouteOf(InstructionKind kind) {
  switch (kind) {
    case InstructionKind::kCopyOut:
      return {"activations.out", Space::kDevice, Space::kPinned};
    case InstructionKind::kNvmeWrite:
      return {"activations.write", Space::kPinned, Space::kNvme};
    case InstructionKind::kNvmeRead:
      return {"activations.read", Space::kNvme, Space::kPinned};
    default:
      return {"activations.in", Space::kPinned, Space::kDevice};
  }
}

// Builds each pass of the layer at most once.
StepDescription Describe(const LowerContext& context, const InstructionKey& key) {
  std::map<Pass, Block> built;  // references stay valid
  return ActivationCopy(context, key, [&](Pass pass) -> const Block& {
    const auto [found, is_new] = built.try_emplace(pass);
    if (is_new) {
      const BlockRequest request{.pass = pass,
                                 .recompute = RecomputeOf(context.plan, context.stage, key.block),
                                 .global = IsGlobal(context.model, context.plan, key.block)};
      found->second =
          BuildBlock({context.model, context.plan, context.stage.shared_table}, request);
    }
    return found->second;
  });
}

constexpr StepRule kOut{Describe, /*alike=*/true};
constexpr StepRule kWrite{Describe, /*alike=*/true};
constexpr StepRule kRead{Describe, /*alike=*/true};
constexpr StepRule kIn{Describe, /*alike=*/true};

// One layer and micro-batch, with two indices into the uses: its forward, and the first use that
// reads the kept tensors.
struct Kept {
  InstructionKey key;
  std::size_t forward = 0;
  std::size_t first_use = 0;
};

// Pairs each layer's forward with the next use that reads the kept tensors: a recomputation or a
// backward of the same micro-batch.
std::vector<Kept> FindKept(const LowerContext& context, const Skeleton& skeleton,
                           const std::vector<BlockUse>& uses) {
  std::vector<Kept> found;
  std::map<std::pair<int, int>, std::size_t> open;  // block, micro-batch -> forward
  for (std::size_t u = 0; u < uses.size(); ++u) {
    const InstructionKey& key = skeleton[uses[u].begin].key;
    if (context.stage.KindOf(key.block) != BlockKind::kLayer) continue;
    const std::pair who{key.block, key.micro_batch};
    if (key.pass == Pass::kForward) {
      open[who] = u;
    } else if (const auto forward = open.find(who); forward != open.end()) {
      found.push_back({key, forward->second, u});
      open.erase(forward);
    }
  }
  return found;
}

}  // namespace

StepDescription ActivationCopy(const LowerContext& context, const InstructionKey& key,
                               const PassBlocks& passes) {
  const auto [name, from, to] = RouteOf(key.kind);
  std::vector<Move> moves;
  for (const TensorSlot& slot : KeptSlots(context, key.block, passes)) {
    const auto in = [&](Space space) {
      return space == Space::kDevice ? NameOnDevice(slot, key) : OffloadedName(slot, key);
    };
    const auto shape = [&](Space space) {
      return TensorShape{slot.bytes, slot.category, slot.format, space};
    };
    moves.push_back({Frees(in(from), shape(from)), Makes(in(to), shape(to))});
  }
  return Copies(name, {from, to}, /*state=*/false, moves);
}

// Copies leave right after the forward. They return one use ahead of the backward, throttled by the
// end of the use before, so few layers are on the device at once. NVMe adds a hop in each
// direction.
void LowerActivationOffload(const LowerContext& context, Skeleton& skeleton) {
  const OffloadTarget target = context.plan.offload_activations;
  if (target == OffloadTarget::kNone) return;
  const bool nvme = target == OffloadTarget::kNvme;
  // Min number of uses between forward and backward. With fewer, nothing could hide the copies.
  const std::size_t min = nvme ? 5 : 3;
  const std::vector<BlockUse> uses = BlockUses(skeleton);
  Insertions insertions;
  for (const Kept& kept : FindKept(context, skeleton, uses)) {
    if (kept.first_use - kept.forward <= min) continue;
    const auto key = [&](InstructionKind kind) {
      return InstructionKey{kind, Pass::kNone, kept.key.block, kept.key.micro_batch, 0};
    };
    const std::size_t out = uses[kept.forward].last;
    insertions.Behind(out, {key(InstructionKind::kCopyOut), &kOut});
    if (nvme) insertions.Behind(out, {key(InstructionKind::kNvmeWrite), &kWrite});
    // Issued `by` uses ahead, and not before the end of the use before that.
    const auto prefetch = [&](InstructionKind kind, const StepRule& rule, std::size_t by) {
      const std::size_t place = uses[kept.first_use - by].begin;
      insertions.Before(
          place, {key(kind), &rule, LastUseBefore(skeleton, uses, kept.first_use - by - 1, place)});
    };
    if (nvme) prefetch(InstructionKind::kNvmeRead, kRead, 2);
    prefetch(InstructionKind::kCopyIn, kIn, 1);
  }
  insertions.ApplyTo(skeleton);
}

}  // namespace foretrain
