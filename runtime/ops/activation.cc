// Kernel calls of elementwise ops: activations, residual sum, softcap of logits, and fills.
#include "runtime/ops/kernel_makers.h"

namespace foretrain {
namespace {
// If the op's row count is known only at run time, passes the tensor of counts that gives it.
void FollowCounts(const BoundOp& op, KernelCall& call) {
  if (op.op.shape.members == 0) return;
  call.counts = op.Pointer<std::byte>("counts");
  call.shape = op.op.shape;
  call.member = op.member;
}

FtGate GateOf(ActivationKind kind) {
  if (kind == ActivationKind::kClampedSilu) return FT_GATE_CLAMPED;
  return kind == ActivationKind::kGeluTanh ? FT_GATE_GELU_TANH : FT_GATE_SILU;
}

// Sets the rows at launch. GELU counts elements: with counts its `elements` are those of one row
// until then.
void SetRows(FtGelu& gelu, std::int64_t rows) { gelu.elements *= rows; }
void SetRows(FtSwiglu& swiglu, std::int64_t rows) { swiglu.rows = rows; }

// A call whose rows may come from counts: at launch the arguments are copied and patched, so that
// the stored ones stay valid for the next step.
template <auto entry>
KernelCall CallOfRows(const BoundOp& op, const ArgumentsOf<entry>& arguments) {
  KernelCall call;
  call.args = arguments;
  FollowCounts(op, call);
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues& values) {
    ArgumentsOf<entry> g = args.As<ArgumentsOf<entry>>();
    if (values.rows >= 0) SetRows(g, values.rows);
    return (api.*entry)(queue, &g);
  };
  return call;
}

FtGelu GeluOf(const BoundOp& op, void* dy, void* out) {
  const OpShape& s = op.op.shape;
  return {.x = op.Pointer("x"),
          .dy = dy,
          .out = out,
          .elements = (s.members > 0 ? 1 : s.rows) * s.cols,
          .dtype = op.Dtype("x"),
          .activation = PlainActivationOf(op.op.activation)};
}

FtSwiglu SwigluOf(const BoundOp& op, void* dy, void* out) {
  return {.x = op.Pointer("x"),
          .dy = dy,
          .out = out,
          .rows = op.op.shape.rows,
          .cols = op.op.shape.cols,
          .dtype = op.Dtype("x"),
          .gate = GateOf(op.op.activation)};
}

KernelCall MakeGeluForward(const BoundOp& op) {
  return CallOfRows<&FtDeviceApi::gelu_forward>(op, GeluOf(op, nullptr, op.Pointer("y")));
}

KernelCall MakeGeluBackward(const BoundOp& op) {
  return CallOfRows<&FtDeviceApi::gelu_backward>(op,
                                                 GeluOf(op, op.Pointer("dy"), op.Pointer("dx")));
}

KernelCall MakeSwigluForward(const BoundOp& op) {
  return CallOfRows<&FtDeviceApi::swiglu_forward>(op, SwigluOf(op, nullptr, op.Pointer("y")));
}

KernelCall MakeSwigluBackward(const BoundOp& op) {
  return CallOfRows<&FtDeviceApi::swiglu_backward>(
      op, SwigluOf(op, op.Pointer("dy"), op.Pointer("dx")));
}

// out = a + b + bias; the bias is null unless tensor parallelism defers it to the residual sum.
KernelCall MakeAdd(const BoundOp& op) {
  return Call<&FtDeviceApi::add>({.a = op.Pointer("a"),
                                  .b = op.Pointer("b"),
                                  .bias = op.Pointer("bias"),
                                  .out = op.Pointer("out"),
                                  .rows = op.op.shape.rows,
                                  .cols = op.op.shape.cols,
                                  .dtype = op.Dtype("a"),
                                  .bias_dtype = op.Dtype("bias")});
}

KernelCall MakeSoftcap(const BoundOp& op) {
  return Call<&FtDeviceApi::softcap>({.x = op.Pointer("x"),
                                      .elements = op.op.shape.elements,
                                      .cap = op.op.Get(Attribute::kSoftcap),
                                      .dtype = FT_F32});
}

// Zeroes the tensor's bytes, which means 0 in every floating-point format.
KernelCall MakeFill(const BoundOp& op) {
  KernelCall call;
  call.args = FillCall{op.Pointer("out"), BytesIn(FormatOf(op.op, "out"), op.op.shape.elements)};
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues&) {
    const FillCall& fill = args.As<FillCall>();
    return api.fill(queue, fill.to, 0, fill.bytes);
  };
  return call;
}

}  // namespace

// Gates have kinds of their own (GateOf), so all others are GELU in its tanh form here.
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

std::span<const KernelMaker> ActivationMakers() {
  static constexpr std::array kMakers = {
      MakerOf<&FtDeviceApi::gelu_forward>(OpKind::kGeluForward, &MakeGeluForward),
      MakerOf<&FtDeviceApi::gelu_backward>(OpKind::kGeluBackward, &MakeGeluBackward),
      MakerOf<&FtDeviceApi::swiglu_forward>(OpKind::kSwigluForward, &MakeSwigluForward),
      MakerOf<&FtDeviceApi::swiglu_backward>(OpKind::kSwigluBackward, &MakeSwigluBackward),
      MakerOf<&FtDeviceApi::add>(OpKind::kAdd, &MakeAdd),
      MakerOf<&FtDeviceApi::softcap>(OpKind::kSoftcap, &MakeSoftcap),
      KernelMaker{OpKind::kFill, &MakeFill, nullptr},
  };
  return kMakers;
}

}  // namespace foretrain
