#include "sim/program/lower/model/model_block.h"

#include <functional>
#include <string>
#include <utility>

#include "sim/program/blocks/blocks.h"
#include "sim/program/blocks/pieces.h"
#include "sim/program/lower/layout/sharding.h"
#include "sim/program/lower/model/block_memory.h"
#include "sim/program/lower/model/recompute.h"
#include "sim/program/lower/model/slot_uses.h"
#include "sim/program/lower/rank/step_description.h"

namespace foretrain {
namespace {

BlockContext BlockContextOf(const LowerContext& context) {
  return {context.model, context.plan, context.stage.shared_table, context.evaluates};
}

// The first micro-batch overwrites the loss and the accumulated gradients, so they need no zeroing;
// later ones add. Gradients that are reduced per micro-batch never accumulate on the device, except
// experts that no other rank has.
BlockRequest RequestFor(const LowerContext& context, const InstructionKey& key) {
  BlockRequest request;
  request.kind = context.stage.KindOf(key.block);
  request.pass = key.pass;
  request.recompute = RecomputeOf(context.plan, context.stage, key.block);
  request.global = IsLayer(request.kind) && IsGlobal(context.model, context.plan, key.block);
  const bool first = key.micro_batch == context.FirstMicroBatch(key.block, key.pass);
  const bool head_forward = key.pass == Pass::kForward && request.kind == BlockKind::kHead;
  request.adds_loss = head_forward && !first;
  // The head's forward may already make gradients.
  const bool gradients = head_forward ? HeadForwardMakesGradients(context.plan)
                                      : key.pass != Pass::kForward && key.pass != Pass::kRecompute;
  const bool sums = gradients && !first && !context.plan.UpdatesEachMicroBatch();
  request.accumulate = sums && !ShardingOf(context.plan).each_micro_batch;
  request.accumulate_experts = request.accumulate || (sums && HoldsExpertsAlone(context.plan) &&
                                                      !GradientsAreOffloaded(context.plan));
  return request;
}

// Bindings and lives follow from the roles of the block's slots, so both are computed once the
// block is made, and lives only for callers that ask for memory.
StepDescription DescriptionOf(const LowerContext& context, const InstructionKey& key,
                              std::string name, bool is_piece, std::function<Block()> make) {
  StepDescription step;
  step.block = std::move(name);
  step.make = std::move(make);
  step.use_of = [&context, key](const TensorSlot& slot) { return UseOfSlot(context, key, slot); };
  step.lives = is_piece ? LivesInPiece : LivesInPass;
  return step;
}

StepDescription Describe(const LowerContext& context, const InstructionKey& key) {
  const BlockRequest request = RequestFor(context, key);
  return DescriptionOf(context, key, NameOf(request), /*is_piece=*/false, [&context, request] {
    return BuildBlock(BlockContextOf(context), request);
  });
}

StepDescription DescribePiece(const LowerContext& context, const InstructionKey& key) {
  const BlockRequest request = RequestFor(context, key);
  return DescriptionOf(context, key, NameOf(request) + ".piece" + std::to_string(key.part),
                       /*is_piece=*/true, [&context, request, part = key.part] {
                         return CutPiece(BuildBlock(BlockContextOf(context), request), part).block;
                       });
}

constexpr StepRule kModelBlock{.describe = Describe};
constexpr StepRule kModelPiece{.describe = DescribePiece};

}  // namespace

// Pieces are equal in all micro-batches, so the first one stands for all.
int PiecesOf(const LowerContext& context, Pass pass, int block) {
  const InstructionKey key = BlockKey(pass, block, context.FirstMicroBatch(block, pass));
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
