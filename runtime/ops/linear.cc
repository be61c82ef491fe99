// GEMM, alone or with what follows it, and the bias gradient.
#include <cstddef>

#include "runtime/ops/kernel_call.h"

namespace foretrain {
namespace {

constexpr std::size_t kBeside = 4;  // the operand behind those of a GEMM alone

void SetWhatFollows(const BoundOp& op, FtGemm& g) {
  switch (op.op.kind) {
    case OpKind::kGemmActivation:
    case OpKind::kGemmActivationKept:
      g.epilogue = FT_EPILOGUE_ACTIVATE;
      break;
    case OpKind::kGemmActivationBackward:
      g.epilogue = FT_EPILOGUE_SLOPE;
      break;
    case OpKind::kGemmBiasGrad:
      g.row_sums = op.Pointer(kBeside);
      g.row_sums_dtype = op.Dtype(kBeside);
      return;
    default:
      return;
  }
  g.activation = PlainActivationOf(op.op.activation);
  g.aux = op.Pointer(kBeside);
  g.ld_aux = op.op.shape.cols;
}

}  // namespace

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
  if (HasScalesApart(op.op.format)) {
    g.a_scale = op.Pointer<float>(4);
    g.b_scale = op.Pointer<float>(5);
    g.a_scaling = ScalingOf(op.op).a;
    g.b_scaling = ScalingOf(op.op).b;
  }
  SetWhatFollows(op, g);
  call.launch = CallOf<&FtDeviceApi::gemm, &KernelArgs::gemm>;
  return call;
}

FtDtype ComputeOf(const Op& op) { return op.format == NumberFormat::kTf32 ? FT_TF32 : FT_F32; }

ProductScaling ScalingOf(const Op& op) {
  if (op.format != NumberFormat::kFp8Block) return {};
  if (op.trans_a) return {FT_SCALE_COLUMNS, FT_SCALE_COLUMNS};
  return {FT_SCALE_ROWS, FT_SCALE_TILES};
}

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
