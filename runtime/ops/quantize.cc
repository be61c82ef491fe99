// Kernel calls of casts: operands of GEMMs, and parameters that are gathered in a narrow format.
#include "runtime/ops/kernel_makers.h"

namespace foretrain {
namespace {
// `wide`: name of the operand with the wider format.
FtQuantize ArgumentsOf(const BoundOp& op, OperandName wide) {
  const NumberFormat format = op.op.format;
  return {.x = op.Pointer("x"),
          .out = op.Pointer("out"),
          .elements = op.op.shape.elements,
          .pieces = op.op.shape.rows,
          .format = format == NumberFormat::kFp8    ? FT_FP8
                    : format == NumberFormat::kInt8 ? FT_I8
                    : format == NumberFormat::kNf4  ? FT_NF4
                                                    : DtypeOf(format).value_or(FT_F32),
          .dtype = op.Dtype(wide)};
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
  const bool keeps = op.AccessOf("scales") == Access::kRead;
  const bool alone = op.Pointer("out") == nullptr;
  KernelCall call;
  call.args = FtQuantizeTensor{.x = op.Pointer("x"),
                               .out = op.Pointer("out"),
                               .transposed = nullptr,
                               .scale = op.Pointer<float>("scales"),
                               .absmax = nullptr,
                               .rows = s.cols > 0 ? s.elements / s.cols : 0,
                               .cols = s.cols,
                               .keep_scale = keeps ? 1 : 0,
                               .format = alone ? FT_FP8 : op.Dtype("out"),
                               .dtype = op.Dtype("x"),
                               .scaling = ScalingOf(op.op.format),
                               .x_scaling = FT_SCALE_ROWS,
                               .x_scale = op.Pointer<float>("x_scales")};
  if (s.members > 0) {
    call.counts = op.Pointer<std::byte>("counts");
    call.shape = s;
    call.member = op.member;
  }
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues& values) {
    FtQuantizeTensor g = args.As<FtQuantizeTensor>();
    if (values.rows >= 0) g.rows = values.rows;
    return api.quantize_tensor(queue, &g);
  };
  return call;
}

// One op kind, two kernels: formats that carry their scales need no rows or columns.
KernelCall MakeQuantize(const BoundOp& op) {
  if (HasScalesApart(op.op.format)) return MakeQuantizeTensor(op);
  return Call<&FtDeviceApi::quantize>(ArgumentsOf(op, "x"));
}

KernelCall MakeDequantize(const BoundOp& op) {
  return Call<&FtDeviceApi::dequantize>(ArgumentsOf(op, "out"));
}

}  // namespace

std::span<const KernelMaker> QuantizeMakers() {
  static constexpr std::array kMakers = {
      MakerOf<&FtDeviceApi::quantize>(OpKind::kQuantize, &MakeQuantize),
      MakerOf<&FtDeviceApi::dequantize>(OpKind::kDequantize, &MakeDequantize),
  };
  return kMakers;
}

}  // namespace foretrain
