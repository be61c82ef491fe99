// Kernel calls of cross-entropy, whole or with the vocabulary split over tensor-parallel ranks.
#include "runtime/ops/kernel_makers.h"

namespace foretrain {
namespace {

// Logits are fp32 in every precision, because exponentials of 16-bit logits lose too many bits.
KernelCall MakeCrossEntropyForward(const BoundOp& op) {
  return Call<&FtDeviceApi::cross_entropy_forward>({.logits = op.Pointer("logits"),
                                                    .targets = op.Pointer<std::int32_t>("targets"),
                                                    .lse = op.Pointer<float>("lse"),
                                                    .loss = op.Pointer<float>("loss"),
                                                    .rows = op.op.shape.rows,
                                                    .vocab = op.op.shape.vocab,
                                                    .scale = op.op.Get(Attribute::kLossShare),
                                                    .accumulate = op.op.accumulate,
                                                    .dtype = FT_F32});
}

// Overwrites the logits by their gradient. One entry serves both layouts: first_id and all_ids find
// the target's column.
KernelCall MakeCrossEntropyBackward(const BoundOp& op) {
  return Call<&FtDeviceApi::cross_entropy_backward>(
      {.logits = op.Pointer("logits"),
       .targets = op.Pointer<std::int32_t>("targets"),
       .lse = op.Pointer<float>("lse"),
       .rows = op.op.shape.rows,
       .vocab = op.op.shape.vocab,
       .first_id = op.FirstId(),
       .all_ids = op.op.shape.vocab_total,
       .scale = op.op.Get(Attribute::kLossShare),
       .dtype = FT_F32,
       .softcap = op.op.Get(Attribute::kSoftcap),
       .loss_scale = op.Pointer<float>("loss_scale")});
}

// vocab_max, vocab_sums and vocab_loss are the three local steps of a split loss; all-reduces lie
// between them.
KernelCall MakeVocabMax(const BoundOp& op) {
  return Call<&FtDeviceApi::vocab_max>({.logits = op.Pointer("logits"),
                                        .max = op.Pointer<float>("max"),
                                        .rows = op.op.shape.rows,
                                        .vocab = op.op.shape.vocab,
                                        .first_id = op.FirstId(),
                                        .all_ids = op.op.shape.vocab_total,
                                        .dtype = FT_F32});
}

// Local sum of exponentials relative to the global maximum, and the target's logit if this rank has
// it.
KernelCall MakeVocabSums(const BoundOp& op) {
  return Call<&FtDeviceApi::vocab_sums>({.logits = op.Pointer("logits"),
                                         .targets = op.Pointer<std::int32_t>("targets"),
                                         .max = op.Pointer<float>("max"),
                                         .sum = op.Pointer<float>("sum"),
                                         .picked = op.Pointer<float>("picked"),
                                         .rows = op.op.shape.rows,
                                         .vocab = op.op.shape.vocab,
                                         .first_id = op.FirstId(),
                                         .all_ids = op.op.shape.vocab_total,
                                         .dtype = FT_F32});
}

KernelCall MakeVocabLoss(const BoundOp& op) {
  return Call<&FtDeviceApi::vocab_loss>({.targets = op.Pointer<std::int32_t>("targets"),
                                         .max = op.Pointer<float>("max"),
                                         .sum = op.Pointer<float>("sum"),
                                         .picked = op.Pointer<float>("picked"),
                                         .lse = op.Pointer<float>("lse"),
                                         .loss = op.Pointer<float>("loss"),
                                         .rows = op.op.shape.rows,
                                         .all_ids = op.op.shape.vocab_total,
                                         .scale = op.op.Get(Attribute::kLossShare),
                                         .accumulate = op.op.accumulate,
                                         .dtype = FT_F32});
}

KernelCall MakeZLoss(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  return Call<&FtDeviceApi::z_loss>({.lse = op.Pointer<float>("lse"),
                                     .targets = op.Pointer<std::int32_t>("targets"),
                                     .loss = op.Pointer<float>("loss"),
                                     .rows = s.rows,
                                     .ids = s.vocab_total > 0 ? s.vocab_total : s.vocab,
                                     .scale = op.op.Get(Attribute::kLossShare),
                                     .weight = op.op.Get(Attribute::kZWeight)});
}

KernelCall MakeZLossBackward(const BoundOp& op) {
  return Call<&FtDeviceApi::z_loss_backward>({.d_logits = op.Pointer("logits"),
                                              .targets = op.Pointer<std::int32_t>("targets"),
                                              .lse = op.Pointer<float>("lse"),
                                              .rows = op.op.shape.rows,
                                              .vocab = op.op.shape.vocab,
                                              .first_id = op.FirstId(),
                                              .all_ids = op.op.shape.vocab_total,
                                              .scale = op.op.Get(Attribute::kLossShare),
                                              .weight = op.op.Get(Attribute::kZWeight),
                                              .dtype = op.Dtype("logits"),
                                              .loss_scale = op.Pointer<float>("loss_scale")});
}

// Targets of MTP layers: those of the next position.
KernelCall MakeShiftTargets(const BoundOp& op) {
  return Call<&FtDeviceApi::shift_targets>({.targets = op.Pointer<std::int32_t>("targets"),
                                            .out = op.Pointer<std::int32_t>("out"),
                                            .rows = op.op.shape.rows,
                                            .sequence = op.op.shape.sequence});
}

}  // namespace

std::span<const KernelMaker> LossMakers() {
  static constexpr std::array kMakers = {
      MakerOf<&FtDeviceApi::cross_entropy_forward>(OpKind::kCrossEntropyForward,
                                                   &MakeCrossEntropyForward),
      MakerOf<&FtDeviceApi::cross_entropy_backward>(OpKind::kCrossEntropyBackward,
                                                    &MakeCrossEntropyBackward),
      MakerOf<&FtDeviceApi::vocab_max>(OpKind::kVocabMax, &MakeVocabMax),
      MakerOf<&FtDeviceApi::vocab_sums>(OpKind::kVocabSums, &MakeVocabSums),
      MakerOf<&FtDeviceApi::vocab_loss>(OpKind::kVocabLoss, &MakeVocabLoss),
      MakerOf<&FtDeviceApi::z_loss>(OpKind::kZLoss, &MakeZLoss),
      MakerOf<&FtDeviceApi::z_loss_backward>(OpKind::kZLossBackward, &MakeZLossBackward),
      MakerOf<&FtDeviceApi::shift_targets>(OpKind::kShiftTargets, &MakeShiftTargets),
  };
  return kMakers;
}

}  // namespace foretrain
