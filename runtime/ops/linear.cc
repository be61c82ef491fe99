// Kernel calls of GEMMs, with or without an epilogue.
#include "runtime/ops/bind_arguments.h"
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
  auto g = BindArguments<FtGemm>(op);
  g.m = s.rows;
  g.n = s.cols;
  g.k = s.inner;
  g.lda = op.op.trans_a ? s.rows : s.inner;
  g.ldb = op.op.trans_b ? s.inner : s.cols;
  g.ldc = s.cols;
  g.activation = {};
  if (HasScalesApart(op.op.format)) {
    g.a_scale = op.Pointer<float>("a_scales");
    g.b_scale = op.Pointer<float>("b_scales");
  }
  SetEpilogue(op, g);
  return Call<&FtDeviceApi::gemm>(g);
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
      KernelMaker{OpKind::kGemm, &MakeGemm},
      KernelMaker{OpKind::kGemmActivation, &MakeGemm},
      KernelMaker{OpKind::kGemmActivationKept, &MakeGemm},
      KernelMaker{OpKind::kGemmActivationBackward, &MakeGemm},
      KernelMaker{OpKind::kGemmBiasGrad, &MakeGemm},
  };
  return kMakers;
}

}  // namespace foretrain
