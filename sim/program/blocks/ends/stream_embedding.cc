// Embedding block of an encoder-decoder: rows of the one token table for both stacks, and their
// tables of relative positions, which the blocks after it read from the stream (stream.h).
#include <array>
#include <string>
#include <utility>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/ir/precision.h"

namespace foretrain {
namespace {

struct StackOfStream {
  StackKind stack;
  const char* name;
  EmbeddingParameter table_index;
  StreamPart rows, table;
};

std::array<StackOfStream, 2> StacksOf(const BlockContext& context) {
  const Stream parts(context.model, context.plan);
  return {{{StackKind::kDecoder, "decoder", kDecoderRelative, parts.decoder, parts.decoder_table},
           {StackKind::kEncoder, "encoder", kEncoderRelative, parts.encoder, parts.encoder_table}}};
}

struct StreamEmbedding {
  BlockBuilder b;
  const BlockContext& context;
  std::int16_t ids = kNoSlot;

  StreamEmbedding(const BlockContext& c, std::string name)
      : b(std::move(name), WideFormats(c.plan)), context(c) {
    ids = b.Slot("ids", context.Rows(), Category::kStaging, SlotRole::kIds);
  }

  std::int16_t Parameter(const std::string& name, EmbeddingParameter index, SlotRole role) {
    const auto list = ParametersOf(context.model, context.plan, BlockKind::kEmbedding);
    const BlockParameter& parameter = list[static_cast<std::size_t>(index)];
    const bool gradient = role == SlotRole::kGradient;
    return b.SlotIn(gradient ? SumFormat(context.plan) : UsedFormat(context.plan, parameter), name,
                    ElementsOf(parameter, context.plan.tp),
                    gradient ? Category::kGradients : Category::kParameters, role, index);
  }

  // Ids of a stack: the decoder's come first, as its rows do.
  std::int16_t IdsOf(const StackOfStream& of) {
    const std::int64_t decoder = context.plan.micro_batch * context.plan.DecoderSequence();
    const std::int64_t encoder = context.plan.micro_batch * context.plan.EncoderSequence();
    const bool decodes = of.stack == StackKind::kDecoder;
    return b.View("ids." + std::string(of.name), ids, decodes ? 0 : decoder,
                  decodes ? decoder : encoder);
  }
  std::int16_t ViewOf(const std::string& name, std::int16_t stream, const StreamPart& part) {
    return b.View(name, stream, part.first, part.elements);
  }
};

}  // namespace

Block StreamEmbeddingForward(const BlockContext& context) {
  StreamEmbedding e(context, "embedding.forward");
  BlockBuilder& b = e.b;
  const std::int16_t tokens = e.Parameter("tokens", kTokenTable, SlotRole::kParameter);
  const std::int16_t y = b.Slot("y", BoundaryElements(context.model, context.plan),
                                Category::kActivations, SlotRole::kOutput);
  for (const StackOfStream& of : StacksOf(context)) {
    BlockContext stack = context;
    stack.stack = of.stack;
    const std::string name = of.name;
    TokensForward(b, stack, "embedding." + name,
                  {e.IdsOf(of), tokens, kNoSlot, e.ViewOf("y." + name, y, of.rows), kNoSlot});
    const std::int16_t table =
        e.Parameter(name + ".relative", of.table_index, SlotRole::kParameter);
    const std::int16_t to = e.ViewOf("y." + name + ".table", y, of.table);
    if (b.FormatOf(table) != b.FormatOf(to)) {
      b.Cast("embedding." + name + ".relative", table, to);
      continue;
    }
    Op& copy = b.Add(OpKind::kCopyOn, "embedding." + name + ".relative", {In(table), Out(to)});
    copy.shape = {.elements = of.table.elements};
  }
  return b.Take();
}

// Both stacks add to the token table's gradient. That of a table of relative positions has been
// summed over its layers on the way.
Block StreamEmbeddingBackward(const BlockContext& context, const BlockRequest& request) {
  const bool accumulate = request.accumulate;
  StreamEmbedding e(context, accumulate ? "embedding.backward.accumulate" : "embedding.backward");
  BlockBuilder& b = e.b;
  const std::int16_t dy = b.Slot("dy", BoundaryElements(context.model, context.plan),
                                 Category::kWorkspace, SlotRole::kOutputGradient);
  const std::int16_t tokens = e.Parameter("d_tokens", kTokenTable, SlotRole::kGradient);
  b.Half(Pass::kBackwardWeight);
  bool adds = accumulate || context.shared_table;
  for (const StackOfStream& of : StacksOf(context)) {
    BlockContext stack = context;
    stack.stack = of.stack;
    const std::string name = of.name;
    TokensBackward(b, stack, "embedding." + name,
                   {e.IdsOf(of), tokens, kNoSlot, e.ViewOf("dy." + name, dy, of.rows), kNoSlot},
                   adds);
    adds = true;
    const std::int16_t grad =
        e.Parameter("d_" + name + ".relative", of.table_index, SlotRole::kGradient);
    b.BiasGradient("embedding." + name + ".relative",
                   e.ViewOf("dy." + name + ".table", dy, of.table), grad, 1, of.table.elements,
                   accumulate);
  }
  return b.Take(request.pass);
}

}  // namespace foretrain
