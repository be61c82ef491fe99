// The ops of each model block for each pass, as executed graphs: pure functions of the model's
// shape and the plan. Leaves out which instruction runs when: sim/program/schedules and lower.
#pragma once

#include <cstdint>
#include <string>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/parameters.h"
#include "sim/program/op.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

// All that a block's ops depend on.
struct BlockContext {
  const ModelSpec& model;
  const Plan& plan;
  bool shared_table = false;  // embedding and tied head lie on one rank and add to one gradient
  std::int64_t window = 0;    // of the layer's attention, by BuildBlock
  bool local = false;         // the layer is one of those that the model's window is for

  // Rows that linears and attention work on, and those of norms and residuals: with sequence
  // parallelism each tensor-parallel rank has a share of them, in rank order.
  std::int64_t Rows() const { return plan.micro_batch * plan.LocalSequence(); }
  std::int64_t OwnRows() const { return plan.sequence_parallel ? Rows() / plan.tp : Rows(); }
};

// Formats of a layer's block, and of embedding and head, whose products are never of 8 bits.
BlockFormats LayerFormats(const Plan& plan);
BlockFormats WideFormats(const Plan& plan);

// Elements of the activations between two blocks on one rank.
inline std::int64_t BoundaryElements(const ModelSpec& model, const Plan& plan) {
  return BlockContext{model, plan}.OwnRows() * model.hidden;
}

// Which template: all that tells one block of a program from another.
struct BlockRequest {
  BlockKind kind = BlockKind::kLayer;
  Pass pass = Pass::kForward;
  // Weight gradients add to what earlier micro-batches left, instead of overwriting it.
  bool accumulate = false;
  // A head's forward adds to the loss of earlier micro-batches.
  bool adds_loss = false;
  // What a layer's backward computes again.
  RecomputeKind recompute = RecomputeKind::kNone;
  // As `accumulate`, of experts: those that one rank alone holds are summed with nobody.
  bool accumulate_experts = false;
  // A layer's queries see all tokens before them in spite of the model's window.
  bool global = false;
};

// Whether the layer that is block `block` is such a one.
// Layers of both kinds are alike where the window holds the sequence and positions turn alike.
inline bool IsGlobal(const ModelSpec& model, const Plan& plan, int block) {
  const bool unlike = model.local_rope_theta > 0 || plan.sequence > model.attention_window;
  return model.attention_window > 0 && unlike && model.IsGlobal(block - 1);
}

// Whether blocks of the kind have such a pass, of those that a schedule has: the embedding has no
// input half, and where it is frozen no backward; a frozen head has no weight half.
inline bool HasPass(const Plan& plan, BlockKind kind, Pass pass) {
  const bool frozen = TrainsAdapters(plan);
  if (pass == Pass::kForward || IsLayer(kind)) return true;
  if (kind == BlockKind::kHead) return !frozen || pass != Pass::kBackwardWeight;
  return !frozen && pass != Pass::kBackwardInput;
}

// How the model's attention makes scores: their scale and cap.
void SetScores(const ModelSpec& model, Op& attention);

// What activation ops of the model compute.
ActivationKind ActivationOf(MlpKind mlp);

// The block, one of those below.
Block BuildBlock(const BlockContext& context, const BlockRequest& request);

// "layer.backward+": unlike for requests that build unlike blocks.
std::string NameOf(const BlockRequest& request);

// Passes are kForward, kBackward (both halves, interleaved) or one half, kBackwardInput or
// kBackwardWeight. The embedding has no input half: that block is empty.
// vectors[own_rows] = rows `ids` of `table`, whole or split by rows over tp, plus positions; and
// back: adds to the table's gradient, or overwrites it, from that of `vectors`, which it returns of
// all rows.
struct TokenTensors {
  std::int16_t ids = kNoSlot, table = kNoSlot, positions = kNoSlot, vectors = kNoSlot;
};
void TokensForward(BlockBuilder& b, const BlockContext& context, const std::string& name,
                   const TokenTensors& of);
std::int16_t TokensBackward(BlockBuilder& b, const BlockContext& context, const std::string& name,
                            const TokenTensors& of, bool adds);

Block EmbeddingForward(const BlockContext& context);
Block EmbeddingBackward(const BlockContext& context, const BlockRequest& request);

// With loss_chunks > 1 the forward goes on to the logits' gradients, a chunk of the rows at a time,
// so that it makes the gradients of the head's weight and of the final norm's output: the backward
// is the norm's alone.
Block HeadForward(const BlockContext& context, const BlockRequest& request);
Block HeadBackward(const BlockContext& context, const BlockRequest& request);

// Whether a head's forward makes weight gradients.
inline bool HeadForwardMakesGradients(const Plan& plan) { return plan.loss_chunks > 1; }

// A layer saves the tensors that its backward reads, less what request.recompute says:
//   full       only the input; an instruction of its own makes the others again
//   selective  not the attention core's output and lse, the norms' outputs and the activation's,
//              which the backward makes again where it needs them: one attention core and three
//              memory-bound ops for 7 of 15 hidden widths a row (GPT). The GEMMs' outputs are kept.
//              Korthikanti et al. 2022, s. 5; there scores are the bulk, which are never stored
//              here.
// Of experts, as of the MLP, the activation's output alone; the rows that were sent to them are
// kept. With mlp_tiles > 1 and either, the MLP's inner tensors are never whole: the backward makes
// them again tile by tile.
// Write...: the same before a pass is taken from it, for a block that has the layer as a part.
BlockBuilder WriteLayerForward(const BlockContext& context, const BlockRequest& request);
BlockBuilder WriteLayerRecompute(const BlockContext& context, const BlockRequest& request);
BlockBuilder WriteLayerBackward(const BlockContext& context, const BlockRequest& request);
Block LayerForward(const BlockContext& context, const BlockRequest& request);
Block LayerRecompute(const BlockContext& context, const BlockRequest& request);
Block LayerBackward(const BlockContext& context, const BlockRequest& request);

}  // namespace foretrain
