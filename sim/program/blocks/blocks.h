// The ops of each model block for each pass, as executed graphs: pure functions of the model's
// shape and the plan. Leaves out which instruction runs when: sim/program/schedules and lower.
#pragma once

#include <cstdint>
#include <string>

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

  std::int64_t Rows() const { return plan.micro_batch * plan.LocalSequence(); }
};

// Forward of a block for one micro-batch. `keep`: tensors the backward reads are saved; otherwise
// they are temporaries and only the block's input is kept. Embedding and head always keep theirs.
Block EmbeddingForward(const BlockContext& context);
Block LayerForward(const BlockContext& context, bool keep);
Block HeadForward(const BlockContext& context, bool first_micro_batch);

// The part of a layer's forward that makes its saved tensors again from its input.
Block LayerRecompute(const BlockContext& context);

// Backward of a block: `half` is kBackward (both halves, interleaved), kBackwardInput or
// kBackwardWeight. `accumulate`: add to the weight gradients instead of overwriting them. The
// embedding has no input half: that block is empty.
Block EmbeddingBackward(const BlockContext& context, Pass half, bool accumulate);
Block LayerBackward(const BlockContext& context, Pass half, bool accumulate);
Block HeadBackward(const BlockContext& context, Pass half, bool accumulate);

// Which template: all that tells one block of a program from another.
struct BlockRequest {
  BlockKind kind = BlockKind::kLayer;
  Pass pass = Pass::kForward;
  // Adds to what earlier micro-batches left, instead of overwriting it: weight gradients of a
  // backward, the loss of a head's forward.
  bool accumulate = false;
};

// The block, one of those above. What a layer's forward keeps is the plan's recomputation.
Block BuildBlock(const BlockContext& context, const BlockRequest& request);

// "layer.backward+": unlike for requests that build unlike blocks.
std::string NameOf(const BlockRequest& request);

}  // namespace foretrain
