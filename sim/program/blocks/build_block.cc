#include "base/result.h"
#include "sim/program/blocks/blocks.h"

namespace foretrain {
namespace {

Block BuildEmbedding(const BlockContext& context, const BlockRequest& request) {
  if (request.pass == Pass::kForward) return EmbeddingForward(context);
  return EmbeddingBackward(context, request.pass, request.accumulate);
}

Block BuildHead(const BlockContext& context, const BlockRequest& request) {
  if (request.pass == Pass::kForward) return HeadForward(context, !request.accumulate);
  return HeadBackward(context, request.pass, request.accumulate);
}

Block BuildLayer(const BlockContext& context, const BlockRequest& request) {
  if (request.pass == Pass::kForward) {
    return LayerForward(context, context.plan.recompute == RecomputeKind::kNone);
  }
  if (request.pass == Pass::kRecompute) return LayerRecompute(context);
  return LayerBackward(context, request.pass, request.accumulate);
}

}  // namespace

Block BuildBlock(const BlockContext& context, const BlockRequest& request) {
  switch (request.kind) {
    case BlockKind::kEmbedding:
      return BuildEmbedding(context, request);
    case BlockKind::kHead:
      return BuildHead(context, request);
    case BlockKind::kLayer:
      return BuildLayer(context, request);
  }
  FT_CHECK(false);
  return {};
}

std::string NameOf(const BlockRequest& request) {
  const char* kind = request.kind == BlockKind::kEmbedding ? "embedding."
                     : request.kind == BlockKind::kHead    ? "head."
                                                           : "layer.";
  return kind + std::string(Name(request.pass)) + (request.accumulate ? "+" : "");
}

}  // namespace foretrain
