// The strategies that make a rank's step: one file each, listed in order in lowerings.cc. A new one
// is a file, a declaration here and a line there.
//
//   make_state  makes buffers that live for the whole run;
//   add_steps   inserts steps into the skeleton, each with the rule that emits it (StepRule).
//
// A strategy that moves a tensor elsewhere (a gathered copy, a copy on the host) tells its readers
// through TensorTable (tensor_table.h), in issue order.
#pragma once

#include <span>

#include "sim/program/lower/rank/skeleton.h"

namespace foretrain {

struct Lowering {
  void (*make_state)(RankBuilder& rank) = nullptr;
  void (*add_steps)(const LowerContext& context, Skeleton& skeleton) = nullptr;
  bool of_update = false;      // all steps that it adds have Pass::kUpdate
  bool of_evaluation = false;  // also adds steps if forward passes run alone
};

// All lowerings in order.
std::span<const Lowering> Lowerings();

// The step of one rank: all lowerings applied to an empty skeleton; those of an evaluation alone if
// the context evaluates.
Skeleton LowerStep(const LowerContext& context);

// A step without a pipeline: each micro-batch passes the rank's blocks one after the other, and all
// other strategies insert their steps. It has an instruction of every kind of the whole step, for
// callers that want costs and not order. Give the plan few micro-batches. `context.stage` may hold
// any blocks of the model. Without `update`, lowerings of the update are skipped.
Skeleton OutlineStep(const LowerContext& context, bool update = true);

// Parameters, gradients and moments of every bucket, as shards if the plan says so.
void MakeBucketState(RankBuilder& rank);

// Turns schedule slots into loads, receives, block passes and sends.
void LowerPipeline(const LowerContext& context, Skeleton& skeleton);

// Full recomputation: runs each layer's forward again, up to its saved tensors, before its
// backward.
void LowerRecompute(const LowerContext& context, Skeleton& skeleton);

// Activation offload: copies each layer's saved activations out after its forward, and back one use
// ahead of its backward.
void LowerActivationOffload(const LowerContext& context, Skeleton& skeleton);

// Parameter offload: copies a block's parameters in before each use, prefetch_depth uses ahead.
void LowerParameterOffload(const LowerContext& context, Skeleton& skeleton);

// Sharded parameters: gathers a block's parameters before each use, prefetch_depth uses ahead,
// perhaps in a shorter number format. Rajbhandari et al. 2020, s. 5.3.
void LowerParameterGathering(const LowerContext& context, Skeleton& skeleton);

// Reduces gradients after each micro-batch's backward, to shards or to whole buckets.
void LowerMicroBatchReduction(const LowerContext& context, Skeleton& skeleton);

// If gradients are not reduced per micro-batch: reduces each bucket over dp once the last
// micro-batch has added to it, overlapped with the rest of the backward. If the optimizer is
// sharded this is a reduce-scatter. Li et al. 2020, s. 3.2.
void LowerGradientReduction(const LowerContext& context, Skeleton& skeleton);

// Tied embeddings on two stages: all-reduces the gradients of both copies.
void LowerTiedEmbeddings(const LowerContext& context, Skeleton& skeleton);

// Sequence parallelism: all-reduces gradients of norms and row-parallel biases over tp, because
// each rank computes them from its own rows.
void LowerOwnRowGradients(const LowerContext& context, Skeleton& skeleton);

// Fewer key and value heads than tensor-parallel ranks: all-reduces gradients of shared heads over
// the ranks that share them.
void LowerHeadGradients(const LowerContext& context, Skeleton& skeleton);

// Counts the tokens that experts get in a step, and moves the router biases to balance them
// (DeepSeek-AI 2024b, s. 2.1.2).
void MakeRouterBiasState(RankBuilder& rank);
void LowerRouterBias(const LowerContext& context, Skeleton& skeleton);

// Steps that overlap (overlap.h): rings of tensors in flight, older parameters, and the copies that
// keep them.
void MakeOverlapState(RankBuilder& rank);
void LowerOlderParameters(const LowerContext& context, Skeleton& skeleton);

// The loss of this rank, and its sum over all ranks.
void MakeLossState(RankBuilder& rank);
void LowerLoss(const LowerContext& context, Skeleton& skeleton);

// The squared norm of all gradients, if the plan clips.
void MakeNormState(RankBuilder& rank);
void LowerGradientNorm(const LowerContext& context, Skeleton& skeleton);

// Loss scaling: counts gradients that are not finite over all ranks (found_inf), and skipped steps.
void MakeLossScaleState(RankBuilder& rank);
void LowerLossScale(const LowerContext& context, Skeleton& skeleton);
// Doubles or halves the loss scale for the next step, after all steps that read the current one.
void LowerScaleUpdate(const LowerContext& context, Skeleton& skeleton);

// Updates of buckets with offloaded optimizer state.
void MakeOptimizerOffloadState(RankBuilder& rank);
void LowerOptimizerOffload(const LowerContext& context, Skeleton& skeleton);

// Updates that wait for no sum over the whole pipeline (post_validation.h).
void MakePostValidationState(RankBuilder& rank);
void LowerPostValidation(const LowerContext& context, Skeleton& skeleton);

// Updates of all other buckets. If each rank updates a shard, gathers of the updated parameters
// follow; the next step's forward waits for them block by block.
void LowerOptimizer(const LowerContext& context, Skeleton& skeleton);

// The host reads loss and norm.
void LowerHostRead(const LowerContext& context, Skeleton& skeleton);

}  // namespace foretrain
