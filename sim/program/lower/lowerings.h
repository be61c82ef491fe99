// The strategies that make a rank's step: one file each, listed in order in lowerings.cc. A new one
// is a file, a declaration here and a line there.
//
//   make_state  buffers that live for the whole run
//   add_steps   inserts steps into the skeleton, each with the rule that emits it (StepRule)
//
// A strategy that moves a tensor elsewhere (a gathered copy, a copy on the host) tells the ones
// that read it through TensorTable (tensor_table.h), in issue order.
#pragma once

#include <span>

#include "sim/program/lower/skeleton.h"

namespace foretrain {

struct Lowering {
  void (*make_state)(RankBuilder& rank) = nullptr;
  void (*add_steps)(const LowerContext& context, Skeleton& skeleton) = nullptr;
};

// All of them, in order.
std::span<const Lowering> Lowerings();

// The step of one rank: what all lowerings make of an empty skeleton.
Skeleton LowerStep(const LowerContext& context);

// Parameters, gradients and moments of every bucket, in shards where the plan says so.
void MakeBucketState(RankBuilder& rank);

// Schedule slots -> loads, receives, block passes and sends.
void LowerPipeline(const LowerContext& context, Skeleton& skeleton);

// Full recomputation: each layer's backward is preceded by its forward up to the saved tensors.
void LowerRecompute(const LowerContext& context, Skeleton& skeleton);

// Saved activations off the device: each layer's are copied out behind its forward, and back one
// use ahead of the backward.
void LowerActivationOffload(const LowerContext& context, Skeleton& skeleton);

// Parameters off the device: copies a block's in before each of its uses, as many uses ahead of the
// compute as the plan says.
void LowerParameterOffload(const LowerContext& context, Skeleton& skeleton);

// Sharded parameters: gathers a block's before each of its uses, as many uses ahead of the compute
// as the plan says, and perhaps in a shorter number format.
// Rajbhandari et al. 2020, s. 5.3.
void LowerParameterGathering(const LowerContext& context, Skeleton& skeleton);

// Gradients that are summed after each micro-batch's backward, to shards or to all of a bucket.
void LowerMicroBatchReduction(const LowerContext& context, Skeleton& skeleton);

// Else: after the last micro-batch has added to a bucket its gradients are summed over dp (sharded
// moments: reduce-scattered) while the backward goes on. Li et al. 2020, s. 3.2.
void LowerGradientReduction(const LowerContext& context, Skeleton& skeleton);

// Tied embeddings on two stages: both copies get the sum of their gradients.
void LowerTiedEmbeddings(const LowerContext& context, Skeleton& skeleton);

// Sequence parallelism: gradients of norms and row-parallel biases, which each rank makes of its
// own rows, are summed over tp.
void LowerOwnRowGradients(const LowerContext& context, Skeleton& skeleton);

// Fewer heads of keys and values than tensor-parallel ranks: gradients of those that several have
// are summed over them.
void LowerHeadGradients(const LowerContext& context, Skeleton& skeleton);

// Counts of what experts get in a step, and biases of their choice that follow them (DeepSeek-AI
// 2024b, s. 2.1.2).
void MakeRouterBiasState(RankBuilder& rank);
void LowerRouterBias(const LowerContext& context, Skeleton& skeleton);

// Where steps overlap (overlap.h): rings of what is in flight, older parameters, and the copies
// that keep them.
void MakeOverlapState(RankBuilder& rank);
void LowerOlderParameters(const LowerContext& context, Skeleton& skeleton);

// The loss: this rank's sum, and the sum over all ranks.
void MakeLossState(RankBuilder& rank);
void LowerLoss(const LowerContext& context, Skeleton& skeleton);

// The squared norm of all gradients, where the plan clips.
void MakeNormState(RankBuilder& rank);
void LowerGradientNorm(const LowerContext& context, Skeleton& skeleton);

// Scaled losses: counts gradients that are not finite, over all ranks, and the steps that are
// skipped for them.
void MakeLossScaleState(RankBuilder& rank);
void LowerLossScale(const LowerContext& context, Skeleton& skeleton);
// Behind all that read the step's scale: doubles or halves it for the next one.
void LowerScaleUpdate(const LowerContext& context, Skeleton& skeleton);

// Updates of the buckets whose optimizer state is off the device.
void MakeOptimizerOffloadState(RankBuilder& rank);
void LowerOptimizerOffload(const LowerContext& context, Skeleton& skeleton);

// Updates that wait for no sum over the pipeline: what is known goes down it before them.
void MakePostValidationState(RankBuilder& rank);
void LowerPostValidation(const LowerContext& context, Skeleton& skeleton);

// Optimizer steps of the others and, where each rank updates a shard, gathers of the updated
// parameters, which the next step's forward waits for, block by block.
void LowerOptimizer(const LowerContext& context, Skeleton& skeleton);

// The host's read of loss and norm.
void LowerHostRead(const LowerContext& context, Skeleton& skeleton);

}  // namespace foretrain
