#include "base/result.h"
#include "sim/program/blocks/blocks.h"

namespace foretrain {

Block BuildBlock(const BlockContext& context, const BlockRequest& request) {
  const bool forward = request.pass == Pass::kForward;
  switch (request.kind) {
    case BlockKind::kEmbedding:
      return forward ? EmbeddingForward(context) : EmbeddingBackward(context, request);
    case BlockKind::kHead:
      return forward ? HeadForward(context, request) : HeadBackward(context, request);
    case BlockKind::kLayer:
    case BlockKind::kExpertLayer:
      if (forward) return LayerForward(context, request);
      if (request.pass == Pass::kRecompute) return LayerRecompute(context, request);
      return LayerBackward(context, request);
  }
  FT_CHECK(false);
  return {};
}

std::string NameOf(const BlockRequest& request) {
  const char* kind = request.kind == BlockKind::kEmbedding ? "embedding."
                     : request.kind == BlockKind::kHead    ? "head."
                     : request.kind == BlockKind::kLayer   ? "layer."
                                                           : "expert_layer.";
  std::string name = kind + std::string(Name(request.pass));
  if (request.recompute != RecomputeKind::kNone) {
    name += "." + std::string(Name(request.recompute));
  }
  if (request.adds_loss) name += ".add";
  return name + (request.accumulate ? "+" : "");
}

}  // namespace foretrain
