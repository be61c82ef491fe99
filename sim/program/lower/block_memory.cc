#include "sim/program/lower/block_memory.h"

#include <algorithm>
#include <map>
#include <vector>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/blocks/pieces.h"
#include "sim/program/lower/offload_state.h"
#include "sim/program/lower/overlap.h"
#include "sim/program/lower/parameter_copies.h"
#include "sim/program/lower/recompute.h"
#include "sim/program/lower/sharding.h"
#include "sim/program/precision.h"

namespace foretrain {
namespace {

Block BlockOf(const LowerContext& context, int block, Pass pass) {
  return BuildBlock({context.model, context.plan, context.stage.shared_table},
                    {.kind = context.stage.KindOf(block),
                     .pass = pass,
                     .recompute = RecomputeOf(context.plan, context.stage, block)});
}

// The passes of one block, each built when it is asked for.
class BuiltPasses {
 public:
  BuiltPasses(const LowerContext& context, int block) : context_(context), block_(block) {}

  const Block& Of(Pass pass) {
    const auto [found, is_new] = blocks_.try_emplace(pass);
    if (is_new) found->second = BlockOf(context_, block_, pass);
    return found->second;
  }

 private:
  const LowerContext& context_;
  int block_;
  std::map<Pass, Block> blocks_;  // references stay valid
};

// A tensor that lives during some of the block's ops: made inside unless it `enters`, gone after
// its last access unless it `stays`.
struct Tenant {
  std::int64_t bytes = 0;
  Category category = Category::kWorkspace;
  int first = -1;
  int last = -1;
  bool enters = false;
  bool stays = false;
};

// First and last op that touches each slot, itself or through a view.
std::vector<Tenant> Touch(const Block& block) {
  std::vector<Tenant> slots(block.slots.size());
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    const Op& op = block.ops[i];
    for (const Operand& operand : OperandsOf(block, op)) {
      if (operand.slot == kNoSlot) continue;
      const std::int16_t base = block.slots[static_cast<std::size_t>(operand.slot)].base;
      Tenant& tenant = slots[static_cast<std::size_t>(base == kNoSlot ? operand.slot : base)];
      if (tenant.first < 0) tenant.first = static_cast<int>(i);
      tenant.last = static_cast<int>(i);
    }
  }
  return slots;
}

// Whether a tensor of this role is there before, or still there after, a pass of its block.
struct Life {
  bool enters = false;
  bool stays = false;
};
// `later`: a later pass reads it too.
Life LifeOf(const TensorSlot& slot, Pass pass, bool later) {
  const bool makes_saved = pass == Pass::kForward || pass == Pass::kRecompute;
  switch (slot.role) {
    case SlotRole::kTemporary:
    case SlotRole::kCarried:
      return {};
    case SlotRole::kOutput:
    case SlotRole::kInputGradient:
      return {false, true};
    case SlotRole::kSaved: {
      const bool held = pass == Pass::kBackwardInput && slot.index >= kFirstHeld;
      return {!makes_saved && !held, later};
    }
    case SlotRole::kInput:
    case SlotRole::kOutputGradient:
    case SlotRole::kIds:
    case SlotRole::kTargets:
      return {true, later};
    default:
      return {true, true};  // state
  }
}

// Whether a later block has made the bucket's gradients of a micro-batch before `block` adds its
// own.
bool IsBegun(const LowerContext& context, int block, int bucket) {
  return std::any_of(context.stage.blocks.begin(), context.stage.blocks.end(), [&](int later) {
    const std::vector<int>& buckets = context.BucketsOf(later);
    return later > block && std::find(buckets.begin(), buckets.end(), bucket) != buckets.end();
  });
}

// Whether the block's forward has gone on to gradients of the bucket: those of the head's weight
// and bias.
bool IsBegunByForward(const LowerContext& context, const InstructionKey& key, int bucket) {
  if (key.pass == Pass::kForward || !HeadForwardMakesGradients(context.plan)) return false;
  if (context.stage.KindOf(key.block) != BlockKind::kHead) return false;
  return context.RangeOf(key.block, kHeadWeight).bucket == bucket ||
         (context.model.head_bias && context.RangeOf(key.block, kHeadBias).bucket == bucket);
}

// Whether an earlier piece of the block has touched other tensors of the bucket.
bool EarlierPieceTouches(const LowerContext& context, const InstructionKey& key, SlotRole role,
                         int bucket) {
  if (key.part == 0 || role != SlotRole::kGradient) return false;
  const Block whole = BlockOf(context, key.block, key.pass);
  for (int part = 0; part < key.part; ++part) {
    for (const TensorSlot& slot : CutPiece(whole, part).block.slots) {
      if (slot.role != role) continue;
      if (context.RangeOf(key.block, slot.index).bucket == bucket) return true;
    }
  }
  return false;
}

// A pass or a piece of one.
struct PieceView {
  const Block& block;
  const std::vector<PieceUse>& uses;  // by slot
};

// The buckets that the block's parameters or gradients lie in, each as one tenant.
void AddBuckets(const LowerContext& context, const InstructionKey& key, const PieceView& piece,
                const std::vector<Tenant>& slots, SlotRole role, const SlotNames& later,
                std::vector<Tenant>& out) {
  const Block& block = piece.block;
  for (const int bucket : context.BucketsOf(key.block)) {
    const Plan& plan = context.plan;
    const bool stays = role == SlotRole::kParameter
                           ? !GathersParameters(plan, context.BucketAt(bucket)) &&
                                 ParameterSpace(plan) == Space::kDevice
                           : !IsWholeForOne(plan, context.BucketAt(bucket));
    if (stays) continue;
    Tenant tenant;
    const Bucket& shape = context.BucketAt(bucket);
    const NumberFormat format = role == SlotRole::kGradient      ? shape.sums
                                : GathersParameters(plan, shape) ? GatheredFormat(plan, shape)
                                                                 : shape.weights;
    tenant.bytes = BytesIn(format, shape.elements);
    PieceUse use;
    use.earlier = EarlierPieceTouches(context, key, role, bucket);
    for (std::size_t s = 0; s < slots.size(); ++s) {
      const TensorSlot& slot = block.slots[s];
      if (slot.role != role || slots[s].first < 0) continue;
      if (context.RangeOf(key.block, slot.index).bucket != bucket) continue;
      tenant.first = tenant.first < 0 ? slots[s].first : std::min(tenant.first, slots[s].first);
      tenant.last = std::max(tenant.last, slots[s].last);
      use.earlier = use.earlier || piece.uses[s].earlier;
      use.later = use.later || piece.uses[s].later;
    }
    if (tenant.first < 0) continue;
    const bool parameters = role == SlotRole::kParameter;
    tenant.category = parameters ? Category::kCommunication : Category::kGradients;
    // A forward that goes on to gradients has made the head's own.
    const bool begun = IsBegun(context, key.block, bucket) ||
                       IsBegunByForward(context, key, bucket) || use.earlier;
    tenant.enters = parameters || begun;
    const bool backward_reads =
        key.pass == Pass::kRecompute &&
        std::any_of(later.begin(), later.end(), [&](const auto& slot) {
          return slot.first == role && context.RangeOf(key.block, slot.second).bucket == bucket;
        });
    tenant.stays =
        !parameters || backward_reads || use.later || !EndsParameterCopy(context, key, bucket);
    out.push_back(tenant);
  }
}

// Whether the tensor lies in a ring.
bool IsState(const LowerContext& context, int block, const TensorSlot& slot) {
  switch (slot.role) {
    case SlotRole::kInput:
      return IsInFlight(context, {TensorKind::kActivation, block - 1});
    case SlotRole::kOutput:
      return IsInFlight(context, {TensorKind::kActivation, block});
    case SlotRole::kSaved:
      return IsInFlight(context, {TensorKind::kSaved, block, 0, slot.index});
    case SlotRole::kIds:
      return IsInFlight(context, {TensorKind::kIds});
    default:
      return false;
  }
}

// The block's own tensors: all that are not there both before and after.
std::vector<Tenant> SlotTenants(const LowerContext& context, const InstructionKey& key,
                                const PieceView& piece, const std::vector<Tenant>& touched,
                                const SlotNames& later) {
  const Block& block = piece.block;
  const bool recomputed =
      RecomputeOf(context.plan, context.stage, key.block) == RecomputeKind::kFull &&
      key.pass != Pass::kForward;
  std::vector<Tenant> tenants;
  for (std::size_t s = 0; s < block.slots.size(); ++s) {
    const TensorSlot& slot = block.slots[s];
    if (slot.base != kNoSlot || touched[s].first < 0) continue;
    Life life = LifeOf(slot, key.pass, later.contains({slot.role, slot.index}));
    life.enters = life.enters || piece.uses[s].earlier;
    // A frozen embedding reads no gradient.
    const bool unread = slot.role == SlotRole::kInputGradient && key.block == 1 &&
                        !HasPass(context.plan, BlockKind::kEmbedding, Pass::kBackward);
    if (unread) life.stays = false;
    life.stays = life.stays || piece.uses[s].later;
    if (life.enters && life.stays) continue;
    if (IsState(context, key.block, slot)) continue;
    // A tensor that was rebuilt keeps the category it was rebuilt under.
    const bool rebuilt = recomputed && slot.role == SlotRole::kSaved && slot.index < kFirstHeld;
    Tenant tenant = touched[s];
    tenant.bytes = slot.bytes;
    tenant.category = rebuilt ? Category::kRecompute : slot.category;
    tenant.enters = life.enters;
    tenant.stays = life.stays;
    tenants.push_back(tenant);
  }
  return tenants;
}

// Live bytes while op `op` runs.
CategoryBytes LiveAt(int op, const std::vector<Tenant>& tenants) {
  CategoryBytes now{};
  for (const Tenant& tenant : tenants) {
    const bool live = (tenant.enters || op >= tenant.first) && (tenant.stays || op <= tenant.last);
    if (live && !tenant.enters) At(now, tenant.category) += tenant.bytes;
    if (!live && tenant.enters) At(now, tenant.category) -= tenant.bytes;
  }
  return now;
}

StepMemory MemoryOf(const LowerContext& context, const InstructionKey& key, const PieceView& piece,
                    const PassBlocks& blocks) {
  const std::vector<Tenant> touched = Touch(piece.block);
  const SlotNames later = TouchedAfter(context, key, blocks);
  std::vector<Tenant> tenants = SlotTenants(context, key, piece, touched, later);
  const Sharding sharding = ShardingOf(context.plan);
  if (sharding.parameters || ParameterSpace(context.plan) != Space::kDevice) {
    AddBuckets(context, key, piece, touched, SlotRole::kParameter, later, tenants);
  }
  if (sharding.each_micro_batch) {
    AddBuckets(context, key, piece, touched, SlotRole::kGradient, later, tenants);
  }
  StepMemory out;
  const int ops = static_cast<int>(piece.block.ops.size());
  for (int op = 0; op < ops; ++op) {
    const CategoryBytes now = LiveAt(op, tenants);
    if (op == 0 || Total(now) > out.peak_total) {
      out.peak_total = Total(now);
      out.at_peak = now;
    }
  }
  out.at_end = LiveAt(ops, tenants);
  return out;
}

}  // namespace

SlotNames TouchedAfter(const LowerContext& context, const InstructionKey& key,
                       const PassBlocks& blocks) {
  SlotNames touched;
  const auto add = [&](Pass pass) {
    if (HasPass(context.plan, context.stage.KindOf(key.block), pass)) {
      touched.Add(TouchedSlots(blocks(pass)));
    }
  };
  const bool forward = key.pass == Pass::kForward;
  if (forward || key.pass == Pass::kRecompute) add(Pass::kBackward);
  if (forward && RecomputeOf(context.plan, context.stage, key.block) == RecomputeKind::kFull) {
    add(Pass::kRecompute);
  }
  if (key.pass == Pass::kBackwardInput) add(Pass::kBackwardWeight);
  return touched;
}

StepMemory MemoryOfBlock(const LowerContext& context, const InstructionKey& key) {
  BuiltPasses passes(context, key.block);
  return MemoryOfBlock(context, key, [&](Pass pass) -> const Block& { return passes.Of(pass); });
}

StepMemory MemoryOfBlock(const LowerContext& context, const InstructionKey& key,
                         const PassBlocks& blocks) {
  const Block& block = blocks(key.pass);
  const std::vector<PieceUse> none(block.slots.size());
  return MemoryOf(context, key, {block, none}, blocks);
}

StepMemory MemoryOfPiece(const LowerContext& context, const InstructionKey& key) {
  BuiltPasses passes(context, key.block);
  const auto blocks = [&](Pass pass) -> const Block& { return passes.Of(pass); };
  const BlockPiece piece = CutPiece(blocks(key.pass), key.part);
  return MemoryOf(context, key, {piece.block, piece.uses}, blocks);
}

}  // namespace foretrain
