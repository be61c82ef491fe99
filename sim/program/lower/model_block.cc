#include "sim/program/lower/model_block.h"

#include <string>

#include "base/result.h"
#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/blocks/pieces.h"
#include "sim/program/lower/block_memory.h"
#include "sim/program/lower/overlap.h"
#include "sim/program/lower/parameter_copies.h"
#include "sim/program/lower/rank_builder.h"
#include "sim/program/lower/recompute.h"
#include "sim/program/lower/sharding.h"

namespace foretrain {
namespace {

constexpr int kSlotsOfABlock = 4096;

BlockContext BlockContextOf(const LowerContext& context) {
  return {context.model, context.plan, context.stage.shared_table};
}

BlockRequest RequestFor(const LowerContext& context, const InstructionKey& key) {
  BlockRequest request;
  request.kind = context.stage.KindOf(key.block);
  request.pass = key.pass;
  request.recompute = RecomputeOf(context.plan, context.stage, key.block);
  request.global = IsLayer(request.kind) && IsGlobal(context.model, context.plan, key.block);
  const bool first = key.micro_batch == context.FirstMicroBatch(key.block);
  const bool head_forward = key.pass == Pass::kForward && request.kind == BlockKind::kHead;
  request.adds_loss = head_forward && !first;
  // Whole gradients may live for one micro-batch.
  const bool gradients = head_forward ? HeadForwardMakesGradients(context.plan)
                                      : key.pass != Pass::kForward && key.pass != Pass::kRecompute;
  const bool sums = gradients && !first && !context.plan.UpdatesEachMicroBatch();
  request.accumulate = sums && !ShardingOf(context.plan).each_micro_batch;
  request.accumulate_experts = request.accumulate || (sums && HoldsExpertsAlone(context.plan) &&
                                                      !GradientsAreAway(context.plan));
  return request;
}

// A tensor that this pass makes.
int Make(RankBuilder& rank, const TensorName& name, const TensorSlot& slot) {
  return rank.Make(name, slot.bytes, slot.category, slot.format);
}

int FindOrMake(RankBuilder& rank, const TensorName& name, const TensorSlot& slot) {
  const int found = rank.Tensors().Find(name);
  return found >= 0 ? found : Make(rank, name, slot);
}

// A tensor that this pass gives to another block; a later piece of the pass may find it.
int Give(RankBuilder& rank, const TensorName& name, const TensorSlot& slot, int piece) {
  return piece > 0 ? FindOrMake(rank, name, slot) : Make(rank, name, slot);
}

// Forward and recomputation make saved tensors; a backward finds them, and its input half makes
// the ones that its weight half reads.
int SavedBuffer(RankBuilder& rank, const TensorSlot& slot, const InstructionKey& key) {
  const TensorName name{TensorKind::kSaved, key.block, key.micro_batch, slot.index};
  const int found = rank.Tensors().Find(name);
  if (found >= 0) return found;
  FT_CHECK(key.pass == Pass::kForward || key.pass == Pass::kRecompute || slot.index >= kFirstHeld);
  return Make(rank, name, slot);
}

// In the copy that a strategy made for this use, or where the bucket keeps them.
Binding ParameterBinding(RankBuilder& rank, const TensorSlot& slot, const InstructionKey& key) {
  const ParameterRange& range = rank.Context().RangeOf(key.block, slot.index);
  const int copy = rank.Tensors().Find(ParameterCopy(rank.Context(), key, range.bucket));
  const Bucket& bucket = rank.Rank().buckets[static_cast<std::size_t>(range.bucket)];
  const Plan& plan = rank.Context().plan;
  FT_CHECK(copy >= 0 || !GathersParameters(plan, bucket));
  return rank.Part(copy >= 0 ? copy : ParametersFor(rank, bucket, key), range.offset,
                   range.elements);
}

// Where each micro-batch is summed, the first pass that adds to a bucket makes whole gradients.
Binding GradientBinding(RankBuilder& rank, const TensorSlot& slot, const InstructionKey& key) {
  const ParameterRange& range = rank.Context().RangeOf(key.block, slot.index);
  const Bucket& bucket = rank.Rank().buckets[static_cast<std::size_t>(range.bucket)];
  const Plan& plan = rank.Context().plan;
  if (!IsWholeForOne(plan, bucket)) {
    return rank.Part(bucket.gradients, range.offset, range.elements);
  }
  const TensorName name{TensorKind::kWholeGradients, 0, key.micro_batch, range.bucket};
  int whole = rank.Tensors().Find(name);
  if (whole < 0) {
    whole =
        rank.Tensors().Put(name, rank.NewBuffer(BytesIn(bucket.sums, bucket.elements),
                                                Category::kGradients, Space::kDevice, bucket.sums));
  }
  return rank.Part(whole, range.offset, range.elements);
}

Binding Bind(RankBuilder& rank, const TensorSlot& slot, const InstructionKey& key) {
  const int block = key.block, mb = key.micro_batch;
  const TensorTable& tensors = rank.Tensors();
  switch (slot.role) {
    case SlotRole::kTemporary:
      return rank.Whole(rank.NewBuffer(slot.bytes, slot.category, Space::kDevice, slot.format));
    case SlotRole::kCarried: {
      const int index = static_cast<int>(key.pass) * kSlotsOfABlock + slot.index;
      return rank.Whole(FindOrMake(rank, {TensorKind::kCarried, block, mb, index}, slot));
    }
    case SlotRole::kInput:
      return rank.Whole(tensors.At({TensorKind::kActivation, block - 1, mb}));
    case SlotRole::kOutput:
      return rank.Whole(Give(rank, {TensorKind::kActivation, block, mb}, slot, key.part));
    case SlotRole::kOutputGradient:
      return rank.Whole(tensors.At({TensorKind::kInputGradient, block + 1, mb}));
    case SlotRole::kInputGradient:
      return rank.Whole(Give(rank, {TensorKind::kInputGradient, block, mb}, slot, key.part));
    case SlotRole::kSaved:
      return rank.Whole(SavedBuffer(rank, slot, key));
    case SlotRole::kParameter:
      return ParameterBinding(rank, slot, key);
    case SlotRole::kGradient:
      return GradientBinding(rank, slot, key);
    case SlotRole::kIds:
      return rank.Whole(tensors.At({TensorKind::kIds, 0, mb}));
    case SlotRole::kTargets:
      return rank.Whole(tensors.At({TensorKind::kTargets, 0, mb}));
    case SlotRole::kLoss:
      return rank.Whole(tensors.At({TensorKind::kLossHere}));
    case SlotRole::kLossScale:
      return rank.Whole(tensors.At({TensorKind::kLossScale}));
    case SlotRole::kLoads:
      return rank.Whole(tensors.At({TensorKind::kLoads, block, 0, slot.index}));
    case SlotRole::kOther:
      break;
  }
  FT_CHECK(false && "a model block binds no other tensors");
  return {};
}

// Binds the block's slots; a view lies in its base, elsewhere on each tensor-parallel rank.
void AddBound(RankBuilder& rank, const InstructionKey& key, int block) {
  std::vector<Binding> bindings;
  const int tp = rank.Rank().tp;
  for (const TensorSlot& slot : rank.SlotsOf(block)) {
    if (slot.base == kNoSlot) {
      bindings.push_back(Bind(rank, slot, key));
      continue;
    }
    const Binding& base = bindings[static_cast<std::size_t>(slot.base)];
    const std::int64_t offset = slot.offset + tp * slot.rank_offset;
    FT_CHECK(offset >= 0 && offset + slot.bytes <= base.bytes);
    bindings.push_back({base.buffer, base.offset + offset, slot.bytes});
  }
  rank.Add(key, block, bindings);
}

void Emit(RankBuilder& rank, const InstructionKey& key) {
  const LowerContext& context = rank.Context();
  const BlockRequest request = RequestFor(context, key);
  const int block =
      rank.FindBlock(NameOf(request), [&] { return BuildBlock(BlockContextOf(context), request); });
  AddBound(rank, key, block);
}

void EmitPiece(RankBuilder& rank, const InstructionKey& key) {
  const LowerContext& context = rank.Context();
  const BlockRequest request = RequestFor(context, key);
  const std::string name = NameOf(request) + ".piece" + std::to_string(key.part);
  const int block = rank.FindBlock(
      name, [&] { return CutPiece(BuildBlock(BlockContextOf(context), request), key.part).block; });
  AddBound(rank, key, block);
}

constexpr StepRule kModelBlock{Emit, MemoryOfBlock};
constexpr StepRule kModelPiece{EmitPiece, MemoryOfPiece};

}  // namespace

int PiecesOf(const LowerContext& context, Pass pass, int block) {
  const InstructionKey key = BlockKey(pass, block, context.FirstMicroBatch(block));
  const BlockRequest request = RequestFor(context, key);
  return static_cast<int>(PieceBegins(BuildBlock(BlockContextOf(context), request)).size());
}

SkeletonStep PieceStep(Pass pass, int block, int micro_batch, int piece) {
  return {{InstructionKind::kBlock, pass, block, micro_batch, piece}, &kModelPiece};
}

SkeletonStep BlockStep(Pass pass, int block, int micro_batch) {
  return {BlockKey(pass, block, micro_batch), &kModelBlock};
}

}  // namespace foretrain
