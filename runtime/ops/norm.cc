// LayerNorm and RMSNorm.
#include "runtime/ops/kernel_call.h"

namespace foretrain {

KernelCall MakeNormForward(const BoundOp& op) {
  KernelCall call;
  call.args.norm_forward = {.x = op.Pointer(0),
                            .weight = op.Pointer(1),
                            .bias = op.Pointer(2),
                            .y = op.Pointer(3),
                            .mean = op.Pointer<float>(4),
                            .rstd = op.Pointer<float>(5),
                            .rows = op.op.shape.rows,
                            .cols = op.op.shape.cols,
                            .epsilon = op.op.parameter,
                            .rms = op.op.rms,
                            .dtype = op.Dtype(0),
                            .weight_dtype = op.Dtype(1)};
  call.launch = CallOf<&FtDeviceApi::norm_forward, &KernelArgs::norm_forward>;
  return call;
}

KernelCall MakeNormBackwardInput(const BoundOp& op) {
  KernelCall call;
  call.args.norm_backward_input = {.dy = op.Pointer(0),
                                   .x = op.Pointer(1),
                                   .weight = op.Pointer(2),
                                   .mean = op.Pointer<float>(3),
                                   .rstd = op.Pointer<float>(4),
                                   .residual = op.Pointer(5),
                                   .dx = op.Pointer(6),
                                   .rows = op.op.shape.rows,
                                   .cols = op.op.shape.cols,
                                   .rms = op.op.rms,
                                   .dtype = op.Dtype(0),
                                   .weight_dtype = op.Dtype(2)};
  call.launch = CallOf<&FtDeviceApi::norm_backward_input, &KernelArgs::norm_backward_input>;
  return call;
}

KernelCall MakeNormBackwardWeight(const BoundOp& op) {
  KernelCall call;
  call.args.norm_backward_weight = {.dy = op.Pointer(0),
                                    .x = op.Pointer(1),
                                    .mean = op.Pointer<float>(2),
                                    .rstd = op.Pointer<float>(3),
                                    .weight_grad = op.Pointer(4),
                                    .bias_grad = op.Pointer(5),
                                    .rows = op.op.shape.rows,
                                    .cols = op.op.shape.cols,
                                    .rms = op.op.rms,
                                    .accumulate = op.op.accumulate,
                                    .dtype = op.Dtype(0),
                                    .grad_dtype = op.Dtype(4)};
  call.launch = CallOf<&FtDeviceApi::norm_backward_weight, &KernelArgs::norm_backward_weight>;
  return call;
}

KernelCall MakeAddNormForward(const BoundOp& op) {
  KernelCall call;
  call.args.add_norm_forward = {.a = op.Pointer(0),
                                .b = op.Pointer(1),
                                .bias = op.Pointer(2),
                                .weight = op.Pointer(3),
                                .norm_bias = op.Pointer(4),
                                .sum = op.Pointer(5),
                                .y = op.Pointer(6),
                                .mean = op.Pointer<float>(7),
                                .rstd = op.Pointer<float>(8),
                                .rows = op.op.shape.rows,
                                .cols = op.op.shape.cols,
                                .epsilon = op.op.parameter,
                                .rms = op.op.rms,
                                .dtype = op.Dtype(0),
                                .weight_dtype = op.Dtype(3)};
  call.launch = CallOf<&FtDeviceApi::add_norm_forward, &KernelArgs::add_norm_forward>;
  return call;
}

}  // namespace foretrain
