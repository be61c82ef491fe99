#include <array>

#include "base/result.h"
#include "sim/program/blocks/backward_passes.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/blocks/fuse.h"
#include "sim/program/ir/precision.h"

namespace foretrain {
namespace {

// Dispatches by kind and pass. Backward functions cut out the requested half themselves.
Block Build(const BlockContext& context, const BlockRequest& request) {
  const bool forward = request.pass == Pass::kForward;
  switch (request.kind) {
    case BlockKind::kEmbedding:
      return forward ? EmbeddingForward(context) : EmbeddingBackward(context, request);
    case BlockKind::kHead:
      return forward ? HeadForward(context, request) : HeadBackward(context, request);
    case BlockKind::kLayer:
    case BlockKind::kExpertLayer:
    case BlockKind::kDecoderLayer:
    case BlockKind::kFirstDecoderLayer:
      if (forward) return LayerForward(context, request);
      if (request.pass == Pass::kRecompute) return LayerRecompute(context, request);
      return LayerBackward(context, request);
  }
  FT_CHECK(false);
  return {};
}

// Adds to the context what depends on the block: its stack, attention window and rotary positions.
BlockContext OfLayer(const BlockContext& context, const BlockRequest& request) {
  BlockContext of_layer = context;
  if (context.model.HasEncoder() && request.kind != BlockKind::kEmbedding) {
    const bool encodes = request.kind == BlockKind::kLayer;
    of_layer.stack = encodes ? StackKind::kEncoder : StackKind::kDecoder;
  }
  of_layer.local = context.model.attention_window > 0 && !request.global;
  of_layer.rotates = context.model.positions == PositionKind::kRope &&
                     (context.model.rotate_global || !request.global);
  if (!request.global && context.plan.sequence > context.model.attention_chunk) {
    of_layer.chunk = context.model.attention_chunk;
  }
  if (of_layer.local) of_layer.window = context.model.WindowOfMaxLayers(context.plan.sequence);
  return of_layer;
}

}  // namespace

void SetScores(const ModelSpec& model, Op& attention) {
  attention.Set(Attribute::kScoreScale, model.attention_scale);
  attention.Set(Attribute::kScoreCap, model.attention_softcap);
}

ActivationKind ActivationOf(MlpKind mlp) {
  switch (mlp) {
    case MlpKind::kGelu:
    case MlpKind::kGeglu:
      return ActivationKind::kGeluTanh;
    case MlpKind::kGeluErf:
      return ActivationKind::kGeluErf;
    case MlpKind::kRelu:
      return ActivationKind::kRelu;
    case MlpKind::kSquaredRelu:
      return ActivationKind::kSquaredRelu;
    case MlpKind::kSwiglu:
      return ActivationKind::kSilu;
    case MlpKind::kClampedSwiglu:
      return ActivationKind::kClampedSilu;
  }
  FT_CHECK(false);
  return {};
}

// The three formats are activations, products and attention; only the second may be of 8 bits.
BlockFormats LayerFormats(const Plan& plan) {
  return {ActivationFormat(plan), ProductFormat(plan), WideProductFormat(plan)};
}

BlockFormats WideFormats(const Plan& plan) {
  return {ActivationFormat(plan), WideProductFormat(plan), WideProductFormat(plan)};
}

// Fusion comes last, on the ops of one pass, so that no fused op spans both halves of a backward.
Block BuildBlock(const BlockContext& context, const BlockRequest& request) {
  Block block = Build(OfLayer(context, request), request);
  Fuse(block, context.plan.fuse);
  return block;
}

// Written once; each pass is then a cut of the same ops, cheaper than building the block for each.
BackwardPasses::BackwardPasses(const BlockContext& context, const BlockRequest& request)
    : plan_(context.plan), written_(WriteLayerBackward(OfLayer(context, request), request)) {
  FT_CHECK(IsLayer(request.kind));
}

Block BackwardPasses::Of(Pass pass) const {
  Block block = written_.Copy(pass);
  Fuse(block, plan_.fuse);
  return block;
}

std::string NameOf(const BlockRequest& request) {
  constexpr std::array<const char*, kBlockKindCount> kKinds = {
      "embedding.", "layer.", "head.", "expert_layer.", "decoder_layer.", "first_decoder_layer."};
  std::string name =
      kKinds[static_cast<std::size_t>(request.kind)] + std::string(Name(request.pass));
  if (request.recompute != RecomputeKind::kNone) {
    name += "." + std::string(Name(request.recompute));
  }
  if (request.global) name += ".global";
  if (request.adds_loss) name += ".add";
  if (request.accumulate_experts && !request.accumulate) name += ".experts+";
  return name + (request.accumulate ? "+" : "");
}

}  // namespace foretrain
