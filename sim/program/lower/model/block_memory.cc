#include "sim/program/lower/model/block_memory.h"

#include <algorithm>
#include <vector>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/blocks/pieces.h"
#include "sim/program/lower/layout/sharding.h"
#include "sim/program/lower/model/recompute.h"
#include "sim/program/lower/model/slot_uses.h"
#include "sim/program/lower/offload/offload_state.h"
#include "sim/program/lower/rank/step_memory.h"
#include "sim/program/lower/transfers/parameter_copies.h"
#include "sim/program/lower/update/overlap.h"

namespace foretrain {
namespace {

// The later passes of the block that read what the pass of `key` leaves.
std::vector<Pass> ReadersOf(const LowerContext& context, const InstructionKey& key) {
  std::vector<Pass> passes;
  const bool forward = key.pass == Pass::kForward;
  if (forward || key.pass == Pass::kRecompute) passes.push_back(Pass::kBackward);
  if (forward && RecomputeOf(context.plan, context.stage, key.block) == RecomputeKind::kFull) {
    passes.push_back(Pass::kRecompute);
  }
  if (key.pass == Pass::kBackwardInput) passes.push_back(Pass::kBackwardWeight);
  const BlockKind kind = context.stage.KindOf(key.block);
  std::erase_if(passes, [&](Pass pass) { return !HasPass(context.plan, kind, pass); });
  return passes;
}

// Whether a tensor of a role lives before a pass of its block, and whether it still lives after it.
struct Ends {
  bool enters = false;
  bool stays = false;
};
// Ends of a slot in a pass; `later`: a later pass reads the tensor too.
Ends EndsOf(const TensorSlot& slot, Pass pass, bool later) {
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

// True if a later block of the model has already made gradients of the bucket for this micro-batch.
// A backward runs blocks in descending order.
bool IsBegun(const LowerContext& context, int block, int bucket) {
  return std::any_of(context.stage.blocks.begin(), context.stage.blocks.end(), [&](int later) {
    const std::vector<int>& buckets = context.BucketsOf(later);
    return later > block && std::find(buckets.begin(), buckets.end(), bucket) != buckets.end();
  });
}

// True if the head's forward has already made gradients of the bucket, those of its weight and
// bias.
bool IsBegunByForward(const LowerContext& context, const InstructionKey& key, int bucket) {
  if (key.pass == Pass::kForward || !HeadForwardMakesGradients(context.plan)) return false;
  if (context.stage.KindOf(key.block) != BlockKind::kHead) return false;
  return context.RangeOf(key.block, kHeadWeight).bucket == bucket ||
         (context.model.head_bias && context.RangeOf(key.block, kHeadBias).bucket == bucket);
}

// True if an earlier piece of the pass has touched other tensors of the bucket.
bool EarlierPieceTouches(const LowerContext& context, const InstructionKey& key, const Block& whole,
                         SlotRole role, int bucket) {
  if (key.part == 0 || role != SlotRole::kGradient) return false;
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
  const Block& whole;                 // the pass
};

// Adds copies of the buckets that the block's parameters or gradients lie in, each as one tenant.
// Within the block it lives from the first to the last op that touches any of its slots.
void AddBuckets(const LowerContext& context, const InstructionKey& key, const PieceView& piece,
                const std::vector<Tenant>& slots, SlotRole role, const SlotNames& later,
                std::vector<Tenant>& out) {
  const Block& block = piece.block;
  const bool parameters = role == SlotRole::kParameter;
  for (const int bucket : context.BucketsOf(key.block)) {
    Tenant tenant;
    PieceUse use;
    for (std::size_t s = 0; s < slots.size(); ++s) {
      const TensorSlot& slot = block.slots[s];
      if (slot.role != role || slots[s].first < 0) continue;
      if (context.RangeOf(key.block, slot.index).bucket != bucket) continue;
      const TensorUse bound = UseOfSlot(context, key, slot);
      if (bound.state != nullptr) continue;
      tenant.bytes = bound.whole;
      tenant.category = bound.category;
      tenant.first = tenant.first < 0 ? slots[s].first : std::min(tenant.first, slots[s].first);
      tenant.last = std::max(tenant.last, slots[s].last);
      use.earlier = use.earlier || piece.uses[s].earlier;
      use.later = use.later || piece.uses[s].later;
    }
    if (tenant.first < 0) continue;
    // Bytes that were made before this pass must not be counted as new.
    const bool begun =
        use.earlier || EarlierPieceTouches(context, key, piece.whole, role, bucket) ||
        IsBegun(context, key.block, bucket) || IsBegunByForward(context, key, bucket);
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

// The block's own tensors that begin or end in this pass. Those that live before and after it are
// counted by the pass that made them.
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
    Ends life = EndsOf(slot, key.pass, later.contains({slot.role, slot.index}));
    life.enters = life.enters || piece.uses[s].earlier;
    // A frozen embedding has no backward, so nothing reads this gradient.
    const bool unread = slot.role == SlotRole::kInputGradient && key.block == 1 &&
                        !HasPass(context.plan, BlockKind::kEmbedding, Pass::kBackward);
    if (unread) life.stays = false;
    life.stays = life.stays || piece.uses[s].later;
    if (life.enters && life.stays) continue;
    const bool inside = slot.role == SlotRole::kTemporary || slot.role == SlotRole::kCarried;
    if (!inside && IsInFlight(context, UseOfSlot(context, key, slot).name)) continue;
    // A recomputed tensor keeps the category under which the recomputation made it.
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

// Every tensor that does not live both before and after the pass is a tenant of some of its ops.
// State is never a tenant: StateBytes counts it once.
Lives LivesOf(const LowerContext& context, const InstructionKey& key, const PieceView& piece,
              const PassBlocks& blocks) {
  const std::vector<Tenant> touched = Touch(piece.block);
  const SlotNames later = TouchedAfter(context, key, blocks);
  Lives out{SlotTenants(context, key, piece, touched, later),
            static_cast<int>(piece.block.ops.size())};
  const Sharding sharding = ShardingOf(context.plan);
  if (sharding.parameters || ParameterSpace(context.plan) != Space::kDevice) {
    AddBuckets(context, key, piece, touched, SlotRole::kParameter, later, out.tenants);
  }
  if (sharding.each_micro_batch) {
    AddBuckets(context, key, piece, touched, SlotRole::kGradient, later, out.tenants);
  }
  return out;
}

// The passes of the block of `key`, as far as LivesOf reads them. They are all made at once,
// because a new block moves the others.
class RegisteredPasses {
 public:
  RegisteredPasses(const LowerContext& context, const InstructionKey& key, BlockRegistry& registry)
      : context_(context), block_(key.block), registry_(registry) {
    Find(key.pass);
    for (const Pass pass : ReadersOf(context, key)) Find(pass);
  }
  const Block& operator()(Pass pass) const { return registry_[Find(pass)]; }

 private:
  int Find(Pass pass) const {
    const BlockKind kind = context_.stage.KindOf(block_);
    const BlockRequest request{
        .kind = kind,
        .pass = pass,
        .recompute = RecomputeOf(context_.plan, context_.stage, block_),
        .global = IsLayer(kind) && IsGlobal(context_.model, context_.plan, block_)};
    return registry_.Find(NameOf(request), [&] {
      return BuildBlock({context_.model, context_.plan, context_.stage.shared_table}, request);
    });
  }

  const LowerContext& context_;
  int block_;
  BlockRegistry& registry_;
};

}  // namespace

SlotNames TouchedAfter(const LowerContext& context, const InstructionKey& key,
                       const PassBlocks& blocks) {
  SlotNames touched;
  for (const Pass pass : ReadersOf(context, key)) touched.Add(TouchedSlots(blocks(pass)));
  return touched;
}

Lives LivesIn(const LowerContext& context, const InstructionKey& key, const PassBlocks& blocks) {
  const Block& block = blocks(key.pass);
  const std::vector<PieceUse> none(block.slots.size());
  return LivesOf(context, key, {block, none, block}, blocks);
}

Lives LivesInPass(const LowerContext& context, const InstructionKey& key, BlockRegistry& registry) {
  return LivesIn(context, key, RegisteredPasses(context, key, registry));
}

Lives LivesInPiece(const LowerContext& context, const InstructionKey& key,
                   BlockRegistry& registry) {
  const RegisteredPasses blocks(context, key, registry);
  const Block& whole = blocks(key.pass);
  const BlockPiece piece = CutPiece(whole, key.part);
  return LivesOf(context, key, {piece.block, piece.uses, whole}, blocks);
}

}  // namespace foretrain
