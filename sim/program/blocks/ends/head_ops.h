// Head, the head's block under construction: final norm, logits and loss of one branch. A branch is
// the next token's prediction or that of an MTP layer. The order of the steps is in head.cc and
// ahead.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/ir/precision.h"

namespace foretrain {

// Max number of MTP layers.
inline constexpr int kMaxMtpLayers = 8;

// Index under which each saved tensor is known. From kMtpSaved on, those of the first MTP layer
// in the order of LayerTensor; then those of the next MTP layer, from kMtpNorm on.
enum HeadTensor : int {
  kHeadNorm,
  kHeadMean,
  kHeadRstd,
  kLogits,
  kHeadLse,
  kNormGradient,
  kMtpNorm,
  kMtpOutput,  // of the MTP layer
  kMtpRstd,
  kMtpLogits,
  kMtpLse,
  kMtpInput,
  kMtpTokens,
  kMtpTokenRstd,
  kMtpHiddenRstd,
  kMtpJoined,
  kMtpSaved,
  // The transform of the hidden state. A model has it or MTP layers, not both: output and
  // statistics of the final norm, and input and output of the activation.
  kPlainNorm = kMtpNorm,
  kPlainMean,
  kPlainRstd,
  kTransformIn,
  kTransformOut,
};

struct Head {
  // One loss and the tensors that lead to it.
  struct Branch {
    std::string suffix;  // ends the ops' names
    std::int16_t x = kNoSlot, norm = kNoSlot, mean = kNoSlot, rstd = kNoSlot, targets = kNoSlot;
    int norm_weight = kFinalNormWeight, norm_bias = kFinalNormBias;
    HeadTensor logits = kLogits, lse = kHeadLse;
    double share = 1;    // weight of this loss
    bool after = false;  // another branch has written the loss and gradients
  };

  BlockBuilder b;
  const BlockContext& context;
  std::int64_t rows, own_rows, hidden, vocab;
  bool rms, split_vocab, split_rows, fuses_loss;
  float loss_scale, gradient_scale;
  Branch next;   // predicts the next token
  Branch plain;  // the final norm, if a transform lies between it and `next`
  std::int16_t transform_in = kNoSlot;
  std::int16_t scale = kNoSlot;  // LossScale's slot, made on first use

  Head(const BlockContext& c, std::string name);

  std::int16_t Parameter(const char* name, int index, SlotRole role);
  // The statistics of the loss are fp32, whatever the logits are.
  std::int16_t SavedLogits(const Branch& branch) {
    return b.SlotIn(LogitFormat(context.plan), "logits" + branch.suffix, rows * vocab,
                    Category::kLogits, SlotRole::kSaved, branch.logits);
  }
  // A number a row: the log-sum-exp, saved for the gradient, or scratch of the fused loss.
  std::int16_t RowsOfLoss(const Branch& branch) {
    return b.SlotIn(NumberFormat::kFp32, "lse" + branch.suffix, rows, Category::kLogits,
                    fuses_loss ? SlotRole::kTemporary : SlotRole::kSaved, branch.lse);
  }
  std::int16_t Saved(const char* name, std::int64_t elements, HeadTensor index) {
    return b.Slot(name, elements, Category::kActivations, SlotRole::kSaved, index);
  }
  std::int16_t SavedExact(const char* name, std::int64_t elements, HeadTensor index) {
    return b.SlotIn(NumberFormat::kFp32, name, elements, Category::kActivations, SlotRole::kSaved,
                    index);
  }
  void MakeTargets();
  // The rows that the head works on, in the tensor of the block before.
  std::int16_t StackRows(const char* name, std::int16_t stream);

  // Slot of the dynamic loss scale; kNoSlot if the plan has none.
  std::int16_t LossScale();
  void NormForward(const Branch& branch);
  // ---- transform.cc; no-ops without a transform. MakeTransform puts it before `next`, of which it
  // moves the input; TransformForward computes that from the final norm on. EndBackward goes from
  // the gradient of next.norm to the head's input gradient, which adds `through` unless kNoSlot.
  void MakeTransform();
  void TransformForward();
  void EndBackward(std::int16_t d_norm, std::int16_t through, bool accumulate);
  // All logits at once, saved for the backward.
  void WholeForward(const Branch& branch, std::int16_t weight, std::int16_t loss, bool adds_loss);
  void ChunkedForward(std::int16_t weight, std::int16_t loss, const BlockRequest& request);
  // Passes the gradient of the norm's output on this rank's rows to `norm_backward`. A reduction
  // over ranks overlaps with the weight gradient.
  void LogitsBackward(const Branch& branch, std::int16_t weight, bool accumulate,
                      const std::function<void(std::int16_t)>& norm_backward);
  // Writes dx, plus `through` unless it is kNoSlot.
  void NormBackward(const Branch& branch, std::int16_t d_norm, std::int16_t through,
                    std::int16_t dx, bool accumulate);
  // Gradient sent to the previous block.
  std::int16_t InputGradient();
};

// MTP layers (mtp.cc), if the model has any (DeepSeek-AI 2024b, s. 2.2). MtpForward adds their
// share to `loss`. MtpBackward returns their gradient of the head's input and writes the first
// part of the head's weight gradient.
void MtpForward(Head& head, std::int16_t weight, std::int16_t loss);
std::int16_t MtpBackward(Head& head, std::int16_t weight, const BlockRequest& request);

}  // namespace foretrain
