// Norms of the heads of queries and keys.
#include "runtime/ops/kernel_call.h"
#include "runtime/ops/qkv_columns.h"

namespace foretrain {

KernelCall MakeHeadNormForward(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  KernelCall call;
  call.args.head_norm_forward = {.data = op.Pointer(0),
                                 .q_weight = op.Pointer(1),
                                 .k_weight = op.Pointer(2),
                                 .kept = op.Pointer(3),
                                 .rstd = op.Pointer<float>(4),
                                 .rows = s.rows,
                                 .row_stride = QkvColumns(s).stride,
                                 .heads = s.heads,
                                 .kv_heads = s.kv_heads,
                                 .head_dim = s.head_dim,
                                 .epsilon = op.op.parameter,
                                 .dtype = FT_F32};
  call.launch = CallOf<&FtDeviceApi::head_norm_forward, &KernelArgs::head_norm_forward>;
  return call;
}

KernelCall MakeHeadNormBackwardInput(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  KernelCall call;
  call.args.head_norm_backward_input = {.grad = op.Pointer(0),
                                        .x = op.Pointer(1),
                                        .rstd = op.Pointer<float>(2),
                                        .q_weight = op.Pointer(3),
                                        .k_weight = op.Pointer(4),
                                        .kept_grad = op.Pointer(5),
                                        .rows = s.rows,
                                        .row_stride = QkvColumns(s).stride,
                                        .heads = s.heads,
                                        .kv_heads = s.kv_heads,
                                        .head_dim = s.head_dim,
                                        .dtype = FT_F32};
  call.launch =
      CallOf<&FtDeviceApi::head_norm_backward_input, &KernelArgs::head_norm_backward_input>;
  return call;
}

KernelCall MakeHeadNormBackwardWeight(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  KernelCall call;
  call.args.head_norm_backward_weight = {.dy = op.Pointer(0),
                                         .x = op.Pointer(1),
                                         .rstd = op.Pointer<float>(2),
                                         .q_weight_grad = op.Pointer(3),
                                         .k_weight_grad = op.Pointer(4),
                                         .rows = s.rows,
                                         .heads = s.heads,
                                         .kv_heads = s.kv_heads,
                                         .head_dim = s.head_dim,
                                         .accumulate = op.op.accumulate,
                                         .dtype = FT_F32};
  call.launch =
      CallOf<&FtDeviceApi::head_norm_backward_weight, &KernelArgs::head_norm_backward_weight>;
  return call;
}

}  // namespace foretrain
