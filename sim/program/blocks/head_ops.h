// The head's block while its ops are written down: final norm, logits and loss of one branch, which
// is that of the next token or of one further ahead. Leaves out the order of the steps: head.cc,
// ahead.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"

namespace foretrain {

// Layers that predict tokens further ahead, at most.
inline constexpr int kMostAhead = 8;

// Tensors that a backward reads, by the number under which they are saved. From kAheadSaved on
// those of the first layer that predicts ahead, in the order of LayerTensor, and behind them those
// of the next one, from kAheadNorm on.
enum HeadTensor : int {
  kHeadNorm,
  kHeadMean,
  kHeadRstd,
  kLogits,
  kHeadLse,
  kNormGradient,
  kAheadNorm,
  kAheadOutput,  // of its layer
  kAheadRstd,
  kAheadLogits,
  kAheadLse,
  kAheadInput,
  kAheadTokens,
  kAheadTokenRstd,
  kAheadHiddenRstd,
  kAheadJoined,
  kAheadSaved,
};

struct Head {
  // One loss and what leads to it.
  struct Branch {
    std::string suffix;  // of names
    std::int16_t x = kNoSlot, norm = kNoSlot, mean = kNoSlot, rstd = kNoSlot, targets = kNoSlot;
    int norm_weight = kFinalNormWeight, norm_bias = kFinalNormBias;
    HeadTensor logits = kLogits, lse = kHeadLse;
    double share = 1;    // of the loss
    bool after = false;  // another branch has made a part of the loss and of the gradients
  };

  BlockBuilder b;
  const BlockContext& context;
  std::int64_t rows, own_rows, hidden, vocab;
  bool rms, split_vocab, split_rows;
  float loss_scale, gradient_scale;
  Branch next;  // the next token
  std::int16_t scale = kNoSlot;  // what LossScale returns, once it is asked for

  Head(const BlockContext& c, std::string name);

  std::int16_t Parameter(const char* name, int index, SlotRole role);
  // Logits and what the loss makes of them are fp32 whatever the products compute in.
  std::int16_t SavedOfLoss(const std::string& name, std::int64_t elements, HeadTensor index) {
    return b.SlotIn(NumberFormat::kFp32, name, elements, Category::kLogits, SlotRole::kSaved,
                    index);
  }
  std::int16_t Saved(const char* name, std::int64_t elements, HeadTensor index) {
    return b.Slot(name, elements, Category::kActivations, SlotRole::kSaved, index);
  }
  std::int16_t SavedExact(const char* name, std::int64_t elements, HeadTensor index) {
    return b.SlotIn(NumberFormat::kFp32, name, elements, Category::kActivations, SlotRole::kSaved,
                    index);
  }
  void MakeTargets() {
    next.targets = b.Slot("targets", rows, Category::kStaging, SlotRole::kTargets);
  }

  // What the loss's scale has become, or kNoSlot.
  std::int16_t LossScale();
  void NormForward(const Branch& branch);
  // All logits at once, kept for the backward.
  void WholeForward(const Branch& branch, std::int16_t weight, std::int16_t loss, bool adds_loss);
  void ChunkedForward(std::int16_t weight, std::int16_t loss, const BlockRequest& request);
  // The gradient of the norm's output on this rank's rows goes to `norm_backward`; a sum over ranks
  // runs beside the weight gradient.
  void LogitsBackward(const Branch& branch, std::int16_t weight, bool accumulate,
                      const std::function<void(std::int16_t)>& norm_backward);
  // -> dx, to which `through` is added.
  void NormBackward(const Branch& branch, std::int16_t d_norm, std::int16_t through,
                    std::int16_t dx, bool accumulate);
  // What goes to the block before.
  std::int16_t InputGradient() {
    return b.Slot("dx", own_rows * hidden, Category::kWorkspace, SlotRole::kInputGradient);
  }

 private:
  std::int16_t WholeNorm(const Branch& branch, const std::string& name);
  OpShape LossShape(std::int64_t some_rows) const;
  void Logits(const std::string& suffix, std::int16_t some_norm, std::int16_t weight,
              std::int16_t logits, std::int64_t some_rows);
  struct LossTensors {
    std::int16_t logits = kNoSlot, targets = kNoSlot, lse = kNoSlot;
  };
  void Loss(const std::string& suffix, const LossTensors& of, std::int16_t loss,
            std::int64_t some_rows, bool adds, double share);
  void SplitLoss(const std::string& suffix, const LossTensors& of, Operand loss,
                 std::int64_t some_rows, double share);
  void LossGradient(const std::string& suffix, const LossTensors& of, std::int64_t some_rows,
                    double share);
};

// ---- ahead.cc: layers that predict tokens further ahead, where the model has any (DeepSeek-AI
// 2024b, s. 2.2). Forward: adds its share of the loss to `loss`. Backward: returns the
// gradient of the head's input by its way; the head's weight gradient is begun with it.
void AheadForward(Head& head, std::int16_t weight, std::int16_t loss);
std::int16_t AheadBackward(Head& head, std::int16_t weight, const BlockRequest& request);

}  // namespace foretrain
