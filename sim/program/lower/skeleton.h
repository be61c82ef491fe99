// The order of a rank's step before tensors are bound: one key an instruction. Each strategy is one
// pass that inserts its own instructions; none writes an edge, an allocation or a free.
#pragma once

#include <optional>
#include <vector>

#include "sim/program/lower/stage.h"
#include "sim/spec/plan.h"
#include "traces/kinds.h"

namespace foretrain {

// `after`: throttles; the instruction waits for all ops of that earlier one.
struct SkeletonStep {
  InstructionKey key;
  std::optional<InstructionKey> after;
};
using Skeleton = std::vector<SkeletonStep>;

// What the passes know of their rank.
struct LowerContext {
  const ModelSpec& model;
  const Plan& plan;
  const Stage& stage;
  const BucketLayout& layout;
  int pp = 0;
};

// Keys that several passes and the emitter agree on. A boundary tensor is named by the block that
// makes it; `bucket` is the part of a key that moves parameters or gradients.
inline constexpr int kLossScalar = 0;
inline constexpr int kNormScalar = 1;
constexpr InstructionKey BlockKey(Pass pass, int block, int micro_batch) {
  return {InstructionKind::kBlock, pass, block, micro_batch, 0};
}
constexpr InstructionKey UpdateKey(InstructionKind kind, int part) {
  return {kind, Pass::kUpdate, 0, 0, part};
}
// The sum of a tied token table's gradient over both ends of the pipeline.
inline InstructionKey TiedSumKey(const Stage& stage, int bucket) {
  return {InstructionKind::kAllReduce, Pass::kUpdate, stage.layers + 1, 0, bucket};
}

// All passes, in order: the step of one rank.
Skeleton LowerStep(const LowerContext& context);

// Schedule slots -> loads, receives, block passes and sends.
Skeleton LowerPipeline(const LowerContext& context);

// Full recomputation: each layer's backward is preceded by its forward up to the saved tensors.
void LowerRecompute(const LowerContext& context, Skeleton& skeleton);

// ZeRO-3: gathers a block's parameters before each of its uses, one use ahead of the compute, and
// reduces its gradients to shards after each backward. Rajbhandari et al. 2020, s. 5.3.
void LowerZero3(const LowerContext& context, Skeleton& skeleton);

// Data parallelism without ZeRO-3: after the last micro-batch has added to a bucket its gradients
// are summed over dp (ZeRO-1: reduce-scattered) while the backward goes on. Li et al. 2020, s. 3.2.
void LowerGradientReduction(const LowerContext& context, Skeleton& skeleton);

// Tied embeddings on two stages: both copies get the sum of their gradients.
void LowerTiedEmbeddings(const LowerContext& context, Skeleton& skeleton);

// Loss, clipping by global norm, optimizer steps, ZeRO-1's gathers of the updated parameters (which
// the next step's forward waits for, block by block) and the host's read of loss and norm.
void LowerUpdate(const LowerContext& context, Skeleton& skeleton);

// Whether the block pass makes weight gradients: kBackward or kBackwardWeight.
constexpr bool MakesWeightGradients(const InstructionKey& key) {
  return key.kind == InstructionKind::kBlock &&
         (key.pass == Pass::kBackward || key.pass == Pass::kBackwardWeight);
}

// After which step of the skeleton each bucket's gradients of `micro_batch` are complete: pairs of
// (position, bucket), ascending.
std::vector<std::pair<std::size_t, int>> BucketCompletions(const LowerContext& context,
                                                           const Skeleton& skeleton,
                                                           int micro_batch);

}  // namespace foretrain
