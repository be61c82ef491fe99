// Cross-entropy, whole or with the vocabulary split over tensor-parallel ranks.
#include "runtime/ops/kernel_call.h"

namespace foretrain {

KernelCall MakeCrossEntropyForward(const BoundOp& op) {
  KernelCall call;
  call.args.cross_entropy_forward = {.logits = op.Pointer(0),
                                     .targets = op.Pointer<std::int32_t>(1),
                                     .lse = op.Pointer<float>(2),
                                     .loss = op.Pointer<float>(3),
                                     .rows = op.op.shape.rows,
                                     .vocab = op.op.shape.vocab,
                                     .scale = op.op.scale,
                                     .accumulate = op.op.accumulate,
                                     .dtype = FT_F32};
  call.launch = CallOf<&FtDeviceApi::cross_entropy_forward, &KernelArgs::cross_entropy_forward>;
  return call;
}

KernelCall MakeCrossEntropyBackward(const BoundOp& op) {
  KernelCall call;
  call.args.cross_entropy_backward = {.logits = op.Pointer(0),
                                      .targets = op.Pointer<std::int32_t>(1),
                                      .lse = op.Pointer<float>(2),
                                      .rows = op.op.shape.rows,
                                      .vocab = op.op.shape.vocab,
                                      .first_id = op.FirstId(),
                                      .all_ids = op.op.shape.vocab_total,
                                      .scale = op.op.scale,
                                      .dtype = FT_F32,
                                      .softcap = op.op.parameter};
  call.launch = CallOf<&FtDeviceApi::cross_entropy_backward, &KernelArgs::cross_entropy_backward>;
  return call;
}

KernelCall MakeVocabMax(const BoundOp& op) {
  KernelCall call;
  call.args.vocab_max = {.logits = op.Pointer(0),
                         .max = op.Pointer<float>(1),
                         .rows = op.op.shape.rows,
                         .vocab = op.op.shape.vocab,
                         .first_id = op.FirstId(),
                         .all_ids = op.op.shape.vocab_total,
                         .dtype = FT_F32};
  call.launch = CallOf<&FtDeviceApi::vocab_max, &KernelArgs::vocab_max>;
  return call;
}

KernelCall MakeVocabSums(const BoundOp& op) {
  KernelCall call;
  call.args.vocab_sums = {.logits = op.Pointer(0),
                          .targets = op.Pointer<std::int32_t>(1),
                          .max = op.Pointer<float>(2),
                          .sum = op.Pointer<float>(3),
                          .picked = op.Pointer<float>(4),
                          .rows = op.op.shape.rows,
                          .vocab = op.op.shape.vocab,
                          .first_id = op.FirstId(),
                          .all_ids = op.op.shape.vocab_total,
                          .dtype = FT_F32};
  call.launch = CallOf<&FtDeviceApi::vocab_sums, &KernelArgs::vocab_sums>;
  return call;
}

KernelCall MakeVocabLoss(const BoundOp& op) {
  KernelCall call;
  call.args.vocab_loss = {.targets = op.Pointer<std::int32_t>(0),
                          .max = op.Pointer<float>(1),
                          .sum = op.Pointer<float>(2),
                          .picked = op.Pointer<float>(3),
                          .lse = op.Pointer<float>(4),
                          .loss = op.Pointer<float>(5),
                          .rows = op.op.shape.rows,
                          .all_ids = op.op.shape.vocab_total,
                          .scale = op.op.scale,
                          .accumulate = op.op.accumulate,
                          .dtype = FT_F32};
  call.launch = CallOf<&FtDeviceApi::vocab_loss, &KernelArgs::vocab_loss>;
  return call;
}

KernelCall MakeShiftTargets(const BoundOp& op) {
  KernelCall call;
  call.args.shift_targets = {.targets = op.Pointer<std::int32_t>(0),
                             .out = op.Pointer<std::int32_t>(1),
                             .rows = op.op.shape.rows,
                             .sequence = op.op.shape.sequence};
  call.launch = CallOf<&FtDeviceApi::shift_targets, &KernelArgs::shift_targets>;
  return call;
}

}  // namespace foretrain
