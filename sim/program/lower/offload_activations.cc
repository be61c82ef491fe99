// Saved activations wait for the backward in pinned memory or on a disk. Rhu et al. 2016 (vDNN);
// Rajbhandari et al. 2021 (ZeRO-Infinity), s. 5.
#include <map>
#include <utility>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/lower/block_memory.h"
#include "sim/program/lower/lowerings.h"
#include "sim/program/lower/offload_copies.h"
#include "sim/program/lower/recompute.h"

namespace foretrain {
namespace {

constexpr int kInputIndex =
    kFirstHeld;  // of a layer's input among what is away; saved ones lie below

// What a layer's forward leaves for its backward: its input and its saved tensors, but for those
// that nothing reads again because weights are frozen.
std::vector<TensorSlot> KeptSlots(const LowerContext& context, int block) {
  const auto passes = [&](Pass pass) {
    return BuildBlock(
        {context.model, context.plan, context.stage.shared_table},
        {.pass = pass, .recompute = RecomputeOf(context.plan, context.stage, block)});
  };
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
TensorName NameAway(const TensorSlot& slot, const InstructionKey& key) {
  const int index = slot.role == SlotRole::kInput ? kInputIndex : slot.index;
  return {TensorKind::kAway, key.block, key.micro_batch, index};
}

// The route of a step.
struct Route {
  const char* name;
  Space from;
  Space to;
};
Route RouteOf(InstructionKind kind) {
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

void Emit(RankBuilder& rank, const InstructionKey& key) {
  const Route route = RouteOf(key.kind);
  TensorTable& tensors = rank.Tensors();
  std::vector<Move> moves;
  for (const TensorSlot& slot : KeptSlots(rank.Context(), key.block)) {
    const auto name = [&](Space space) {
      return space == Space::kDevice ? NameOnDevice(slot, key) : NameAway(slot, key);
    };
    const int from = tensors.At(name(route.from));
    tensors.Drop(name(route.from));
    const int to = tensors.Put(name(route.to),
                               rank.NewBuffer(slot.bytes, slot.category, route.to, slot.format));
    moves.push_back({rank.Whole(from), rank.Whole(to)});
  }
  AddCopies(rank, key, route.name, /*state=*/false, moves);
}

StepMemory MemoryIn(const LowerContext& context, const InstructionKey& key, Space space) {
  CategoryBytes bytes{};
  for (const TensorSlot& slot : KeptSlots(context, key.block))
    At(bytes, slot.category) += slot.bytes;
  const Route route = RouteOf(key.kind);
  return MovedMemory(space, route.from, route.to, bytes);
}
StepMemory Memory(const LowerContext& context, const InstructionKey& key) {
  return MemoryIn(context, key, Space::kDevice);
}

constexpr StepRule kOut{Emit, Memory, MemoryIn, /*alike=*/true};
constexpr StepRule kWrite{Emit, Memory, MemoryIn, /*alike=*/true};
constexpr StepRule kRead{Emit, Memory, MemoryIn, /*alike=*/true};
constexpr StepRule kIn{Emit, Memory, MemoryIn, /*alike=*/true};

// One layer and micro-batch: the numbers, among the uses, of its forward and of the first use of
// what that kept.
struct Kept {
  InstructionKey key;
  std::size_t forward = 0;
  std::size_t first_use = 0;
};

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

void LowerActivationOffload(const LowerContext& context, Skeleton& skeleton) {
  const OffloadTarget target = context.plan.offload_activations;
  if (target == OffloadTarget::kNone) return;
  const bool nvme = target == OffloadTarget::kNvme;
  // Blocks that must lie between: with fewer there is nothing that the copies could run beside.
  const std::size_t least = nvme ? 5 : 3;
  const std::vector<BlockUse> uses = BlockUses(skeleton);
  Insertions insertions;
  for (const Kept& kept : FindKept(context, skeleton, uses)) {
    if (kept.first_use - kept.forward <= least) continue;
    const auto key = [&](InstructionKind kind) {
      return InstructionKey{kind, Pass::kNone, kept.key.block, kept.key.micro_batch, 0};
    };
    const std::size_t out = uses[kept.forward].last;
    insertions.Behind(out, {key(InstructionKind::kCopyOut), &kOut});
    if (nvme) insertions.Behind(out, {key(InstructionKind::kNvmeWrite), &kWrite});
    // Issued before the use ahead, no earlier than the end of the one before that.
    const auto ahead = [&](InstructionKind kind, const StepRule& rule, std::size_t by) {
      const std::size_t place = uses[kept.first_use - by].begin;
      insertions.Before(
          place, {key(kind), &rule, LastUseBefore(skeleton, uses, kept.first_use - by - 1, place)});
    };
    if (nvme) ahead(InstructionKind::kNvmeRead, kRead, 2);
    ahead(InstructionKind::kCopyIn, kIn, 1);
  }
  insertions.ApplyTo(skeleton);
}

}  // namespace foretrain
