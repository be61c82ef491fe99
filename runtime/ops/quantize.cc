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
                                                    : DtypeOf(format).value_or(FT_F32),
          .dtype = op.Dtype(whole)};
}

}  // namespace

KernelCall MakeQuantize(const BoundOp& op) {
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
