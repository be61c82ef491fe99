// Kernel calls of elementwise ops: activations, the backward of dropout, and fills.
#include "runtime/ops/bind_arguments.h"
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

// `out`: operand that the call writes.
template <auto entry>
KernelCall MakeGelu(const BoundOp& op, OperandName out) {
  const OpShape& s = op.op.shape;
  auto g = BindArguments<FtGelu>(op);
  g.out = op.Pointer(out);
  g.elements = (s.members > 0 ? 1 : s.rows) * s.cols;
  return CallOfRows<entry>(op, g);
}

template <auto entry>
KernelCall MakeSwiglu(const BoundOp& op, OperandName out) {
  auto g = BindArguments<FtSwiglu>(op);
  g.out = op.Pointer(out);
  g.gate = GateOf(op.op.activation);
  return CallOfRows<entry>(op, g);
}

KernelCall MakeGeluForward(const BoundOp& op) {
  return MakeGelu<&FtDeviceApi::gelu_forward>(op, "y");
}
KernelCall MakeGeluBackward(const BoundOp& op) {
  return MakeGelu<&FtDeviceApi::gelu_backward>(op, "dx");
}
KernelCall MakeSwigluForward(const BoundOp& op) {
  return MakeSwiglu<&FtDeviceApi::swiglu_forward>(op, "y");
}
KernelCall MakeSwigluBackward(const BoundOp& op) {
  return MakeSwiglu<&FtDeviceApi::swiglu_backward>(op, "dx");
}

KernelCall MakeDropoutBackward(const BoundOp& op) {
  auto g = BindArguments<FtDropoutBackward>(op);
  g.elements = op.op.shape.rows * op.op.shape.cols;
  return Call<&FtDeviceApi::dropout_backward>(g);
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
      KernelMaker{OpKind::kGeluForward, &MakeGeluForward},
      KernelMaker{OpKind::kGeluBackward, &MakeGeluBackward},
      KernelMaker{OpKind::kSwigluForward, &MakeSwigluForward},
      KernelMaker{OpKind::kSwigluBackward, &MakeSwigluBackward},
      KernelMaker{OpKind::kDropoutBackward, &MakeDropoutBackward},
      KernelMaker{OpKind::kFill, &MakeFill},
  };
  return kMakers;
}

}  // namespace foretrain
