// Kernel calls of casts: operands of GEMMs, and parameters that are gathered in a narrow format.
#include "runtime/ops/bind_arguments.h"
#include "runtime/ops/kernel_makers.h"

namespace foretrain {
namespace {
// `wide`: name of the operand with the wider format.
FtQuantize QuantizeOf(const BoundOp& op, OperandName wide) {
  const NumberFormat format = op.op.format;
  auto g = BindArguments<FtQuantize>(op);
  g.pieces = op.op.shape.rows;
  g.format = format == NumberFormat::kFp8    ? FT_FP8
             : format == NumberFormat::kInt8 ? FT_I8
             : format == NumberFormat::kNf4  ? FT_NF4
                                             : DtypeOf(format).value_or(FT_F32);
  g.dtype = op.Dtype(wide);
  return g;
}

// Layout of the scales that a cast writes.
FtScaling ScalingOf(NumberFormat format) {
  switch (format) {
    case NumberFormat::kFp8Block:
      return FT_SCALE_ROWS;
    case NumberFormat::kFp8Columns:
      return FT_SCALE_COLUMNS;
    case NumberFormat::kFp8Tile:
      return FT_SCALE_TILES;
    default:
      return FT_SCALE_TENSOR;
  }
}

// Casts to codes with separate scales. `keeps`: the scale is given (CastTogether), only codes are
// written. `alone`: only the scale is written. With counts, only the rows that arrived are cast.
KernelCall MakeQuantizeTensor(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  auto g = BindArguments<FtQuantizeTensor>(op);
  g.scale = op.Pointer<float>("scales");
  g.rows = s.cols > 0 ? s.elements / s.cols : 0;
  g.keep_scale = op.AccessOf("scales") == Access::kRead;
  g.format = g.out == nullptr ? FT_FP8 : op.Dtype("out");
  g.scaling = ScalingOf(op.op.format);
  g.x_scaling = FT_SCALE_ROWS;
  g.x_scale = op.Pointer<float>("x_scales");
  KernelCall call;
  call.args = g;
  if (s.members > 0) {
    call.counts = op.Pointer<std::byte>("counts");
    call.shape = s;
    call.member = op.member;
  }
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues& values) {
    FtQuantizeTensor cast = args.As<FtQuantizeTensor>();
    if (values.rows >= 0) cast.rows = values.rows;
    return api.quantize_tensor(queue, &cast);
  };
  return call;
}

// One op kind, two kernels: formats that carry their scales need no rows or columns.
KernelCall MakeQuantize(const BoundOp& op) {
  if (HasScalesApart(op.op.format)) return MakeQuantizeTensor(op);
  return Call<&FtDeviceApi::quantize>(QuantizeOf(op, "x"));
}

KernelCall MakeDequantize(const BoundOp& op) {
  return Call<&FtDeviceApi::dequantize>(QuantizeOf(op, "out"));
}

}  // namespace

std::span<const KernelMaker> QuantizeMakers() {
  static constexpr std::array kMakers = {
      KernelMaker{OpKind::kQuantize, &MakeQuantize},
      KernelMaker{OpKind::kDequantize, &MakeDequantize},
  };
  return kMakers;
}

}  // namespace foretrain
