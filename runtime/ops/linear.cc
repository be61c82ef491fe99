// GEMM and the bias gradient.
#include "runtime/ops/kernel_call.h"

namespace foretrain {

KernelCall MakeGemm(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  KernelCall call;
  call.args.gemm = {.a = op.Pointer(0),
                    .b = op.Pointer(1),
                    .bias = op.Pointer(2),
                    .c = op.Pointer(3),
                    .m = s.rows,
                    .n = s.cols,
                    .k = s.inner,
                    .lda = op.op.trans_a ? s.rows : s.inner,
                    .ldb = op.op.trans_b ? s.inner : s.cols,
                    .ldc = s.cols,
                    .trans_a = op.op.trans_a,
                    .trans_b = op.op.trans_b,
                    .accumulate = op.op.accumulate,
                    .scale = op.op.scale,
                    .dtype = op.Dtype(0),
                    .bias_dtype = op.Dtype(2),
                    .c_dtype = op.Dtype(3)};
  call.launch = CallOf<&FtDeviceApi::gemm, &KernelArgs::gemm>;
  return call;
}

KernelCall MakeBiasGrad(const BoundOp& op) {
  KernelCall call;
  call.args.bias_grad = {.dy = op.Pointer(0),
                         .grad = op.Pointer(1),
                         .rows = op.op.shape.rows,
                         .cols = op.op.shape.cols,
                         .accumulate = op.op.accumulate,
                         .dtype = op.Dtype(0),
                         .grad_dtype = op.Dtype(1)};
  call.launch = CallOf<&FtDeviceApi::bias_grad, &KernelArgs::bias_grad>;
  return call;
}

}  // namespace foretrain
