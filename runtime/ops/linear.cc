// GEMM and the bias gradient.
#include "runtime/ops/kernel_call.h"

namespace foretrain {

KernelCall MakeGemm(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  KernelCall call;
  FtGemm& g = call.args.gemm;
  g = {};
  g.a = op.Pointer(0);
  g.b = op.Pointer(1);
  g.bias = op.Pointer(2);
  g.c = op.Pointer(3);
  g.m = s.rows;
  g.n = s.cols;
  g.k = s.inner;
  g.lda = op.op.trans_a ? s.rows : s.inner;
  g.ldb = op.op.trans_b ? s.inner : s.cols;
  g.ldc = s.cols;
  g.trans_a = op.op.trans_a;
  g.trans_b = op.op.trans_b;
  g.accumulate = op.op.accumulate;
  g.scale = op.op.scale;
  g.dtype = op.Dtype(0);
  g.bias_dtype = op.Dtype(2);
  g.c_dtype = op.Dtype(3);
  g.compute = ComputeOf(op.op);
  call.launch = CallOf<&FtDeviceApi::gemm, &KernelArgs::gemm>;
  return call;
}

FtDtype ComputeOf(const Op& op) { return op.format == NumberFormat::kTf32 ? FT_TF32 : FT_F32; }

const FtGemm* GemmOf(const KernelCall& call) {
  const KernelCall::Launch launch = CallOf<&FtDeviceApi::gemm, &KernelArgs::gemm>;
  return call.launch == launch ? &call.args.gemm : nullptr;
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
