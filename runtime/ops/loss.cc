// Cross-entropy.
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
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues&) {
    return api.cross_entropy_forward(queue, &args.cross_entropy_forward);
  };
  return call;
}

KernelCall MakeCrossEntropyBackward(const BoundOp& op) {
  KernelCall call;
  call.args.cross_entropy_backward = {.logits = op.Pointer(0),
                                      .targets = op.Pointer<std::int32_t>(1),
                                      .lse = op.Pointer<float>(2),
                                      .rows = op.op.shape.rows,
                                      .vocab = op.op.shape.vocab,
                                      .scale = op.op.scale,
                                      .dtype = FT_F32};
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues&) {
    return api.cross_entropy_backward(queue, &args.cross_entropy_backward);
  };
  return call;
}

}  // namespace foretrain
