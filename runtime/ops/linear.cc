// Kernel calls of GEMMs, with or without an epilogue, and of bias gradients.
#include "runtime/ops/kernel_makers.h"

namespace foretrain {
namespace {
// Sets the epilogue of a fused op: activation, activation gradient, or sums of a's rows for the
// bias gradient.
void SetEpilogue(const BoundOp& op, FtGemm& g) {
  switch (op.op.kind) {
    case OpKind::kGemmActivationKept:
      g.aux = op.Pointer("y");
      [[fallthrough]];
    case OpKind::kGemmActivation:
      g.epilogue = FT_EPILOGUE_ACTIVATE;
      break;
    case OpKind::kGemmActivationBackward:
      g.epilogue = FT_EPILOGUE_SLOPE;
      g.aux = op.Pointer("x");
      break;
    case OpKind::kGemmBiasGrad:
      g.row_sums = op.Pointer("grad");
      g.row_sums_dtype = op.Dtype("grad");
      return;
    default:
      return;
  }
  g.activation = PlainActivationOf(op.op.activation);
  g.ld_aux = op.op.shape.cols;
}

// Operands are dense row-major matrices, so leading dimensions follow from the shape and the
// transpositions.
KernelCall MakeGemm(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  FtGemm g{};
  g.a = op.Pointer("a");
  g.b = op.Pointer("b");
  g.bias = op.Pointer("bias");
  g.c = op.Pointer("c");
  g.m = s.rows;
  g.n = s.cols;
  g.k = s.inner;
  g.lda = op.op.trans_a ? s.rows : s.inner;
  g.ldb = op.op.trans_b ? s.inner : s.cols;
  g.ldc = s.cols;
  g.trans_a = op.op.trans_a;
  g.trans_b = op.op.trans_b;
  g.accumulate = op.op.accumulate;
  g.scale = op.op.Get(Attribute::kFactor);
  g.dtype = op.Dtype("a");
  g.bias_dtype = op.Dtype("bias");
  g.c_dtype = op.Dtype("c");
  g.compute = ComputeOf(op.op);
  if (HasScalesApart(op.op.format)) {
    g.a_scale = op.Pointer<float>("a_scales");
    g.b_scale = op.Pointer<float>("b_scales");
    g.a_scaling = ScalingOf(op.op).a;
    g.b_scaling = ScalingOf(op.op).b;
  }
  SetEpilogue(op, g);
  return Call<&FtDeviceApi::gemm>(g);
}

KernelCall MakeBiasGrad(const BoundOp& op) {
  return Call<&FtDeviceApi::bias_grad>({.dy = op.Pointer("dy"),
                                        .grad = op.Pointer("grad"),
                                        .rows = op.op.shape.rows,
                                        .cols = op.op.shape.cols,
                                        .accumulate = op.op.accumulate,
                                        .dtype = op.Dtype("dy"),
                                        .grad_dtype = op.Dtype("grad")});
}

}  // namespace

FtDtype ComputeOf(const Op& op) { return op.format == NumberFormat::kTf32 ? FT_TF32 : FT_F32; }

// Blocks run along the reduction: rows of activations and tiles of weights, or columns of both for
// a weight gradient, whose reduction runs over rows.
ProductScaling ScalingOf(const Op& op) {
  if (op.format != NumberFormat::kFp8Block) return {};
  if (op.trans_a) return {FT_SCALE_COLUMNS, FT_SCALE_COLUMNS};
  return {FT_SCALE_ROWS, FT_SCALE_TILES};
}

std::span<const KernelMaker> LinearMakers() {
  static constexpr std::array kMakers = {
      MakerOf<&FtDeviceApi::gemm>(OpKind::kGemm, &MakeGemm),
      MakerOf<&FtDeviceApi::gemm>(OpKind::kGemmActivation, &MakeGemm),
      MakerOf<&FtDeviceApi::gemm>(OpKind::kGemmActivationKept, &MakeGemm),
      MakerOf<&FtDeviceApi::gemm>(OpKind::kGemmActivationBackward, &MakeGemm),
      MakerOf<&FtDeviceApi::gemm>(OpKind::kGemmBiasGrad, &MakeGemm),
      MakerOf<&FtDeviceApi::bias_grad>(OpKind::kBiasGrad, &MakeBiasGrad),
  };
  return kMakers;
}

}  // namespace foretrain
