// Parameters in the format in which they are gathered.
#include "runtime/ops/kernel_call.h"

namespace foretrain {
namespace {

FtQuantize ArgumentsOf(const BoundOp& op) {
  const NumberFormat format = op.op.format;
  return {.x = op.Pointer(0),
          .out = op.Pointer(1),
          .elements = op.op.shape.elements,
          .pieces = op.op.shape.rows,
          .format = format == NumberFormat::kBf16  ? FT_BF16
                    : format == NumberFormat::kFp8 ? FT_FP8
                                                   : FT_I8,
          .dtype = FT_F32};
}

}  // namespace

KernelCall MakeQuantize(const BoundOp& op) {
  KernelCall call;
  call.args.quantize = ArgumentsOf(op);
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues&) { return api.quantize(queue, &args.quantize); };
  return call;
}

KernelCall MakeDequantize(const BoundOp& op) {
  KernelCall call;
  call.args.quantize = ArgumentsOf(op);
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues&) { return api.dequantize(queue, &args.quantize); };
  return call;
}

}  // namespace foretrain
