// Gates of rows, and what balances a router without a loss.
#include "runtime/ops/kernel_call.h"

namespace foretrain {

KernelCall MakeGateForward(const BoundOp& op) {
  KernelCall call;
  call.args.gate = {.x = op.Pointer(0),
                    .scores = op.Pointer<float>(1),
                    .y = op.Pointer(2),
                    .rows = op.op.shape.rows,
                    .cols = op.op.shape.cols,
                    .accumulate = op.op.accumulate,
                    .dtype = op.Dtype(0)};
  call.launch = CallOf<&FtDeviceApi::gate_forward, &KernelArgs::gate>;
  return call;
}

KernelCall MakeGateBackward(const BoundOp& op) {
  KernelCall call;
  call.args.gate_backward = {.dy = op.Pointer(0),
                             .x = op.Pointer(1),
                             .scores = op.Pointer<float>(2),
                             .dx = op.Pointer(3),
                             .d_scores = op.Pointer<float>(4),
                             .rows = op.op.shape.rows,
                             .cols = op.op.shape.cols,
                             .dtype = op.Dtype(0)};
  call.launch = CallOf<&FtDeviceApi::gate_backward, &KernelArgs::gate_backward>;
  return call;
}

KernelCall MakeCountChoices(const BoundOp& op) {
  KernelCall call;
  call.args.count_choices = {.chosen = op.Pointer<std::int32_t>(0),
                             .loads = op.Pointer<float>(1),
                             .rows = op.op.shape.rows,
                             .experts = op.op.shape.experts,
                             .per_token = op.op.shape.per_token};
  call.launch = CallOf<&FtDeviceApi::count_choices, &KernelArgs::count_choices>;
  return call;
}

KernelCall MakeBalanceBias(const BoundOp& op) {
  KernelCall call;
  call.args.balance_bias = {.loads = op.Pointer<float>(0),
                            .bias = op.Pointer<float>(1),
                            .experts = op.op.shape.experts,
                            .rate = op.op.parameter};
  call.launch = CallOf<&FtDeviceApi::balance_bias, &KernelArgs::balance_bias>;
  return call;
}

}  // namespace foretrain
