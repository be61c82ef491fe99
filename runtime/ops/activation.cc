// Elementwise ops: GELU, SwiGLU, the residual sum, and zeros.
#include "runtime/ops/kernel_call.h"

namespace foretrain {
namespace {

KernelCall Gelu(const BoundOp& op, void* dy, void* out) {
  KernelCall call;
  call.args.gelu = {.x = op.Pointer(0),
                    .dy = dy,
                    .out = out,
                    .elements = op.op.shape.rows * op.op.shape.cols,
                    .dtype = FT_F32};
  return call;
}

KernelCall Swiglu(const BoundOp& op, void* dy, void* out) {
  KernelCall call;
  call.args.swiglu = {.x = op.Pointer(0),
                      .dy = dy,
                      .out = out,
                      .rows = op.op.shape.rows,
                      .cols = op.op.shape.cols,
                      .dtype = FT_F32};
  return call;
}

}  // namespace

KernelCall MakeGeluForward(const BoundOp& op) {
  KernelCall call = Gelu(op, nullptr, op.Pointer(1));
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues&) { return api.gelu_forward(queue, &args.gelu); };
  return call;
}

KernelCall MakeGeluBackward(const BoundOp& op) {
  KernelCall call = Gelu(op, op.Pointer(1), op.Pointer(2));
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues&) { return api.gelu_backward(queue, &args.gelu); };
  return call;
}

KernelCall MakeSwigluForward(const BoundOp& op) {
  KernelCall call = Swiglu(op, nullptr, op.Pointer(1));
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues&) { return api.swiglu_forward(queue, &args.swiglu); };
  return call;
}

KernelCall MakeSwigluBackward(const BoundOp& op) {
  KernelCall call = Swiglu(op, op.Pointer(1), op.Pointer(2));
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues&) { return api.swiglu_backward(queue, &args.swiglu); };
  return call;
}

KernelCall MakeAdd(const BoundOp& op) {
  KernelCall call;
  call.args.add = {.a = op.Pointer(0),
                   .b = op.Pointer(1),
                   .bias = op.Pointer(2),
                   .out = op.Pointer(3),
                   .rows = op.op.shape.rows,
                   .cols = op.op.shape.cols,
                   .dtype = FT_F32};
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues&) { return api.add(queue, &args.add); };
  return call;
}

KernelCall MakeFill(const BoundOp& op) {
  KernelCall call;
  call.args.fill = {op.Pointer(0), op.op.shape.elements * std::int64_t{sizeof(float)}};
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues&) { return api.fill(queue, args.fill.to, 0, args.fill.bytes); };
  return call;
}

}  // namespace foretrain
