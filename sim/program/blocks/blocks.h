// Builds the ops of each model block for each pass, as executed graphs: pure functions of the
// model's shape and the plan. Which instruction runs when: sim/program/schedules and
// sim/program/lower.
#pragma once

#include <cstdint>
#include <string>

#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/parameters.h"
#include "sim/program/blocks/stream.h"
#include "sim/program/ir/op.h"

namespace foretrain {

// The stack of an encoder-decoder whose rows a block works on; kBoth: also in other models.
enum class StackKind : std::uint8_t { kBoth, kEncoder, kDecoder };

// Everything that a block's ops depend on.
struct BlockContext {
  const ModelSpec& model;
  const Plan& plan;
  bool shared_table = false;  // tied table: embedding and head on one rank share a gradient
  bool evaluates = false;     // forward passes alone: nothing is counted for an update
  std::int64_t window = 0;    // of the layer's attention, set by BuildBlock; 0: none
  std::int64_t chunk = 0;     // tokens of its attention chunks, set by BuildBlock; 0: none
  bool local = false;         // the layer uses the model's sliding window
  bool rotates = false;       // the layer has rotary positions, set by BuildBlock
  StackKind stack = StackKind::kBoth;  // set by BuildBlock

  // Tokens of a sample that the block works on.
  std::int64_t Sequence() const {
    switch (stack) {
      case StackKind::kBoth:
        break;
      case StackKind::kEncoder:
        return plan.EncoderSequence();
      case StackKind::kDecoder:
        return plan.DecoderSequence();
    }
    return plan.LocalSequence();
  }
  // Rows: tokens that linears and attention work on. OwnRows: tokens that norms and residuals work
  // on; with sequence parallelism each tp rank has 1 / tp of the rows, in rank order.
  std::int64_t Rows() const { return plan.micro_batch * Sequence(); }
  std::int64_t OwnRows() const { return plan.sequence_parallel ? Rows() / plan.tp : Rows(); }
};

// Formats of a layer's block, and of embedding and head, whose products are never in 8 bits.
BlockFormats LayerFormats(const Plan& plan);
BlockFormats WideFormats(const Plan& plan);

// Elements of the activations that one rank passes from a block to the next.
inline std::int64_t BoundaryElements(const ModelSpec& model, const Plan& plan) {
  if (model.HasEncoder()) return Stream(model, plan).Elements();
  return BlockContext{model, plan}.OwnRows() * model.hidden;
}

// Identifies a block template among those of a program.
struct BlockRequest {
  BlockKind kind = BlockKind::kLayer;
  Pass pass = Pass::kForward;
  // Weight gradients add to what earlier micro-batches left, instead of overwriting it.
  bool accumulate = false;
  // A head's forward adds to the loss of earlier micro-batches.
  bool adds_loss = false;
  // Tensors that a layer's backward recomputes.
  RecomputeKind recompute = RecomputeKind::kNone;
  // Like `accumulate`, for expert weights. It differs from `accumulate` if one rank alone holds an
  // expert, so that no gradient reduction covers it.
  bool accumulate_experts = false;
  // The layer attends to all earlier tokens although the model has a window, or has no rotary
  // positions although the model has them.
  bool global = false;
};

// True if block `block` is a layer with global attention and its template differs from a local one.
// They are the same if the window covers the sequence and both have the same rotary positions.
inline bool IsGlobal(const ModelSpec& model, const Plan& plan, int block) {
  const bool narrow = (model.attention_window > 0 && plan.sequence > model.attention_window) ||
                      (model.attention_chunk > 0 && plan.sequence > model.attention_chunk);
  const bool unlike = narrow || model.local_rope_theta > 0 || !model.rotate_global;
  return unlike && model.IsGlobal(block - 1);
}

// True if blocks of this kind have this pass. The embedding has no input half and, if frozen, no
// backward; a frozen head has no weight half.
inline bool HasPass(const Plan& plan, BlockKind kind, Pass pass) {
  const bool frozen = TrainsAdapters(plan);
  if (pass == Pass::kForward || IsLayer(kind)) return true;
  if (kind == BlockKind::kHead) return !frozen || pass != Pass::kBackwardWeight;
  return !frozen && pass != Pass::kBackwardInput;
}

// Sets the scale and the softcap of attention scores.
void SetScores(const ModelSpec& model, Op& attention);

// Function of the activation ops for an MLP kind.
ActivationKind ActivationOf(MlpKind mlp);

// Builds the block for the request with one of the functions below, then fuses ops as the plan
// says.
Block BuildBlock(const BlockContext& context, const BlockRequest& request);

// Name of a request's block, for example "layer.backward+"; requests that build different blocks
// differ in name.
std::string NameOf(const BlockRequest& request);

// Token embedding. Forward: vectors[own_rows] = rows `ids` of `table` (whole, or split by rows over
// tp), plus positions. Backward: adds to, or overwrites, the table's gradient from the gradient
// `vectors`, and returns that gradient of all rows. Passes are kForward, kBackward (both halves,
// interleaved), or one half: kBackwardInput or kBackwardWeight. The embedding's input half is
// empty.
struct TokenTensors {
  std::int16_t ids = kNoSlot, table = kNoSlot, positions = kNoSlot, vectors = kNoSlot;
  std::int16_t document_starts = kNoSlot;  // positions count from there
};
void TokensForward(BlockBuilder& b, const BlockContext& context, const std::string& name,
                   const TokenTensors& of);
std::int16_t TokensBackward(BlockBuilder& b, const BlockContext& context, const std::string& name,
                            const TokenTensors& of, bool adds);

Block EmbeddingForward(const BlockContext& context);
Block EmbeddingBackward(const BlockContext& context, const BlockRequest& request);
// Those of an encoder-decoder, which make the stream (stream.h) and end its gradients.
Block StreamEmbeddingForward(const BlockContext& context);
Block StreamEmbeddingBackward(const BlockContext& context, const BlockRequest& request);

// With loss_chunks > 1 the forward also computes the logits' gradients, one chunk of rows at a
// time. It then writes the gradients of the head's weight and of the final norm's output. The
// backward is left with the norm.
Block HeadForward(const BlockContext& context, const BlockRequest& request);
Block HeadBackward(const BlockContext& context, const BlockRequest& request);

// True if a head's forward writes weight gradients.
inline bool HeadForwardMakesGradients(const Plan& plan) { return plan.loss_chunks > 1; }

// Whether the head's forward turns logits into their gradient in the op of the loss. A split
// vocabulary has collectives between the two, and the z-loss needs the log-sum-exp.
inline bool FusesLoss(const ModelSpec& model, const Plan& plan) {
  const bool chosen = plan.fuse == FusionKind::kLoss || plan.fuse == FusionKind::kAll;
  return chosen && !plan.vocab_parallel && model.z_loss == 0;
}

// A layer saves the tensors that its backward reads, except those that request.recompute names:
//   full       saves the input only; a separate instruction recomputes the rest
//   selective  drops the tensors of the plan's modules (ModulesOf); the backward rebuilds them
//              where it first reads them
// The default modules cost one attention core and three memory-bound ops for 7 of 15 hidden widths
// a row (GPT): outputs of GEMMs are kept. Korthikanti et al. 2022, s. 5; there scores dominate,
// which flash attention never stores. With mlp_tiles > 1 the MLP's inner tensors, if dropped, never
// exist whole: the backward recomputes them tile by tile.
//
//   core-attention     attention's output and lse, from qkv; of standard attention the scores only
//   norm               outputs of norms before linears, from the residual stream or the latents
//   activation         the activation's output in dense layers and shared experts, from up's
//   mlp                outputs of up and of the activation in dense layers, from norm2
//   qkv                queries, keys, values and the inputs of head norms, from norm1
//   mla-up             queries, keys, values of latent attention, from latents and the rotated key
//   expert-activation  the activation's output in experts, from up's
//   experts            dispatched rows, outputs of up, activation and down, and shared-experts,
//                      from norm2 and the router's choice
//   shared-experts     outputs of up and activation and, with a gate, down, from norm2
// With experts the rows travel to the experts and back once more; the router does not run again.
//
// WriteLayer*: the same before a pass is taken, for a block that contains the layer.
BlockBuilder WriteLayerForward(const BlockContext& context, const BlockRequest& request);
BlockBuilder WriteLayerRecompute(const BlockContext& context, const BlockRequest& request);
BlockBuilder WriteLayerBackward(const BlockContext& context, const BlockRequest& request);
Block LayerForward(const BlockContext& context, const BlockRequest& request);
Block LayerRecompute(const BlockContext& context, const BlockRequest& request);
Block LayerBackward(const BlockContext& context, const BlockRequest& request);

}  // namespace foretrain
