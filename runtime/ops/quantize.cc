// Numbers in a shorter format: casts of products' operands, parameters as they are gathered.
#include "runtime/ops/kernel_call.h"

namespace foretrain {
namespace {

// `whole`: the operand of the longer numbers.
FtQuantize ArgumentsOf(const BoundOp& op, std::size_t whole) {
  const NumberFormat format = op.op.format;
  return {.x = op.Pointer(0),
          .out = op.Pointer(1),
          .elements = op.op.shape.elements,
          .pieces = op.op.shape.rows,
          .format = format == NumberFormat::kFp8    ? FT_FP8
                    : format == NumberFormat::kInt8 ? FT_I8
                    : format == NumberFormat::kNf4  ? FT_NF4
                                                    : DtypeOf(format).value_or(FT_F32),
          .dtype = op.Dtype(whole)};
}

}  // namespace

namespace {

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

// Codes with scales apart: of all rows, or of those that come.
KernelCall MakeQuantizeTensor(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  const bool keeps = op.operands.size() > 2 && op.operands[2].access == Access::kRead;
  const bool alone = op.Pointer(1) == nullptr;
  KernelCall call;
  call.args.quantize_tensor = {.x = op.Pointer(0),
                               .out = op.Pointer(1),
                               .transposed = nullptr,
                               .scale = op.Pointer<float>(2),
                               .absmax = nullptr,
                               .rows = s.cols > 0 ? s.elements / s.cols : 0,
                               .cols = s.cols,
                               .keep_scale = keeps ? 1 : 0,
                               .format = alone ? FT_FP8 : op.Dtype(1),
                               .dtype = op.Dtype(0),
                               .scaling = ScalingOf(op.op.format),
                               .x_scaling = FT_SCALE_ROWS,
                               .x_scale = op.Pointer<float>(3)};
  if (s.members > 0) {
    call.counts = op.Pointer<std::byte>(4);
    call.shape = s;
    call.member = op.member;
  }
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues& values) {
    FtQuantizeTensor g = args.quantize_tensor;
    if (values.rows >= 0) g.rows = values.rows;
    return api.quantize_tensor(queue, &g);
  };
  return call;
}

}  // namespace

KernelCall MakeQuantize(const BoundOp& op) {
  if (HasScalesApart(op.op.format)) return MakeQuantizeTensor(op);
  KernelCall call;
  call.args.quantize = ArgumentsOf(op, 0);
  call.launch = CallOf<&FtDeviceApi::quantize, &KernelArgs::quantize>;
  return call;
}

KernelCall MakeDequantize(const BoundOp& op) {
  KernelCall call;
  call.args.quantize = ArgumentsOf(op, 1);
  call.launch = CallOf<&FtDeviceApi::dequantize, &KernelArgs::quantize>;
  return call;
}

}  // namespace foretrain
