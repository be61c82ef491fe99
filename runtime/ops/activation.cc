// Elementwise ops: activations, the residual sum, the cap of logits, and zeros.
#include "runtime/ops/kernel_call.h"

namespace foretrain {
namespace {

// `counts`: of an op that follows them.
void FollowCounts(const BoundOp& op, std::size_t counts, KernelCall& call) {
  if (op.op.shape.members == 0) return;
  call.counts = op.Pointer<std::byte>(counts);
  call.shape = op.op.shape;
  call.member = op.member;
}

FtGate GateOf(ActivationKind kind) {
  if (kind == ActivationKind::kClampedSilu) return FT_GATE_CLAMPED;
  return kind == ActivationKind::kGeluTanh ? FT_GATE_GELU_TANH : FT_GATE_SILU;
}

// Where rows follow counts, `elements` are those of one row.
KernelCall Gelu(const BoundOp& op, void* dy, void* out, std::size_t counts) {
  KernelCall call;
  const OpShape& s = op.op.shape;
  call.args.gelu = {.x = op.Pointer(0),
                    .dy = dy,
                    .out = out,
                    .elements = (s.members > 0 ? 1 : s.rows) * s.cols,
                    .dtype = op.Dtype(0),
                    .activation = PlainActivationOf(op.op.activation)};
  FollowCounts(op, counts, call);
  return call;
}

KernelCall Swiglu(const BoundOp& op, void* dy, void* out, std::size_t counts) {
  KernelCall call;
  call.args.swiglu = {.x = op.Pointer(0),
                      .dy = dy,
                      .out = out,
                      .rows = op.op.shape.rows,
                      .cols = op.op.shape.cols,
                      .dtype = op.Dtype(0),
                      .gate = GateOf(op.op.activation)};
  FollowCounts(op, counts, call);
  return call;
}

FtGelu OfRows(FtGelu gelu, const StepValues& values) {
  if (values.rows >= 0) gelu.elements *= values.rows;
  return gelu;
}
FtSwiglu OfRows(FtSwiglu swiglu, const StepValues& values) {
  if (values.rows >= 0) swiglu.rows = values.rows;
  return swiglu;
}

}  // namespace

FtActivation PlainActivationOf(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::kGeluErf:
      return FT_GELU_ERF;
    case ActivationKind::kRelu:
      return FT_RELU;
    case ActivationKind::kSquaredRelu:
      return FT_SQUARED_RELU;
    default:
      return FT_GELU_TANH;
  }
}

KernelCall MakeGeluForward(const BoundOp& op) {
  KernelCall call = Gelu(op, nullptr, op.Pointer(1), 2);
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues& values) {
    const auto rows = OfRows(args.gelu, values);
    return api.gelu_forward(queue, &rows);
  };
  return call;
}

KernelCall MakeGeluBackward(const BoundOp& op) {
  KernelCall call = Gelu(op, op.Pointer(1), op.Pointer(2), 3);
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues& values) {
    const auto rows = OfRows(args.gelu, values);
    return api.gelu_backward(queue, &rows);
  };
  return call;
}

KernelCall MakeSwigluForward(const BoundOp& op) {
  KernelCall call = Swiglu(op, nullptr, op.Pointer(1), 2);
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues& values) {
    const auto rows = OfRows(args.swiglu, values);
    return api.swiglu_forward(queue, &rows);
  };
  return call;
}

KernelCall MakeSwigluBackward(const BoundOp& op) {
  KernelCall call = Swiglu(op, op.Pointer(1), op.Pointer(2), 3);
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues& values) {
    const auto rows = OfRows(args.swiglu, values);
    return api.swiglu_backward(queue, &rows);
  };
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
                   .dtype = op.Dtype(0),
                   .bias_dtype = op.Dtype(2)};
  call.launch = CallOf<&FtDeviceApi::add, &KernelArgs::add>;
  return call;
}

KernelCall MakeSoftcap(const BoundOp& op) {
  KernelCall call;
  call.args.softcap = {.x = op.Pointer(0),
                       .elements = op.op.shape.elements,
                       .cap = op.op.parameter,
                       .dtype = FT_F32};
  call.launch = CallOf<&FtDeviceApi::softcap, &KernelArgs::softcap>;
  return call;
}

KernelCall MakeFill(const BoundOp& op) {
  KernelCall call;
  call.args.fill = {op.Pointer(0), BytesIn(op.op.formats[0], op.op.shape.elements)};
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues&) { return api.fill(queue, args.fill.to, 0, args.fill.bytes); };
  return call;
}

}  // namespace foretrain
