// Kernel calls of a mixture of experts: router, dispatch and combination of rows, biases, and
// grouped GEMMs.
#include "runtime/ops/bind_arguments.h"
#include "runtime/ops/kernel_makers.h"

namespace foretrain {
namespace {

// The call keeps the router's name, by which a run can record or replay its choices.
KernelCall MakeRoute(const BoundOp& op) {
  KernelCall call = CallByName<&FtDeviceApi::route>(op);
  call.router = op.op.name;
  return call;
}

KernelCall MakeRouteBackward(const BoundOp& op) {
  auto g = BindArguments<FtRouteBackward>(op);
  g.dtype = op.Dtype("d_logits");
  return Call<&FtDeviceApi::route_backward>(g);
}

// A gather makes the experts' rows from tokens; a combination and its dot products go back.
template <auto entry>
KernelCall MakeExpertRows(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  const bool gathers = op.op.kind == OpKind::kExpertGather;
  auto g = BindArguments<ArgumentsOf<entry>>(op);
  g.tokens = gathers ? s.elements : s.rows;
  g.expert_rows = gathers ? s.rows : s.elements;
  return Call<entry>(g);
}

// Sets the runs of rows that belong to one expert each. Rows are `width` wide in operand `rows`.
template <class Arguments>
void SetRuns(const BoundOp& op, OperandName rows, std::int64_t width, Arguments& g) {
  const OpShape& s = op.op.shape;
  if (s.capacity > 0) g.groups = g.rows / s.capacity;
  if (s.members == 0) return;
  // With exchanged counts there is a run for each member and local expert. `rows` is what the
  // buffer holds; the counts say how many are valid.
  g.counts += std::int64_t{s.piece} * s.all_experts + std::int64_t{op.member} * s.experts;
  g.count_stride = std::int64_t{s.pieces} * s.all_experts;
  g.groups = std::int64_t{s.members} * s.experts;
  g.rows = op.Room(rows) / width;
}

// kFactor is 1 / tp if each tensor-parallel rank computes a part of the expert's output, so that
// the sum adds the bias once.
KernelCall MakeExpertBias(const BoundOp& op) {
  auto g = BindArguments<FtExpertBias>(op);
  g.groups = g.experts;
  SetRuns(op, "x", g.cols, g);
  return Call<&FtDeviceApi::expert_bias>(g);
}

KernelCall MakeExpertBiasGrad(const BoundOp& op) {
  auto g = BindArguments<FtExpertBiasGrad>(op);
  g.bias_grad = op.Pointer("grad");
  g.groups = g.experts;
  SetRuns(op, "dy", g.cols, g);
  return Call<&FtDeviceApi::expert_bias_grad>(g);
}

// The mode follows from the transpositions: forward has b transposed, the weight gradient has a
// transposed, and the input gradient neither.
KernelCall MakeGroupedGemm(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  auto g = BindArguments<FtGroupedGemm>(op);
  g.mode = op.op.trans_a   ? FT_GROUPED_WEIGHT
           : op.op.trans_b ? FT_GROUPED_FORWARD
                           : FT_GROUPED_INPUT;
  g.rows = op.op.trans_a ? s.inner : s.rows;
  g.out = op.op.trans_a ? s.rows : op.op.trans_b ? s.cols : s.inner;
  g.in = op.op.trans_b ? s.inner : s.cols;
  g.groups = g.experts;
  g.a_scale = op.Pointer<float>("a_scales");
  g.b_scale = op.Pointer<float>("b_scales");
  SetRuns(op, "a", g.mode == FT_GROUPED_FORWARD ? g.in : g.out, g);
  return Call<&FtDeviceApi::grouped_gemm>(g);
}

}  // namespace

std::span<const KernelMaker> MoeMakers() {
  static constexpr std::array kMakers = {
      KernelMaker{OpKind::kRoute, &MakeRoute},
      KernelMaker{OpKind::kRouteBackward, &MakeRouteBackward},
      KernelMaker{OpKind::kExpertGather, &MakeExpertRows<&FtDeviceApi::expert_gather>},
      KernelMaker{OpKind::kExpertCombine, &MakeExpertRows<&FtDeviceApi::expert_combine>},
      KernelMaker{OpKind::kExpertDots, &MakeExpertRows<&FtDeviceApi::expert_dots>},
      KernelMaker{OpKind::kExpertBias, &MakeExpertBias},
      KernelMaker{OpKind::kExpertBiasGrad, &MakeExpertBiasGrad},
      KernelMaker{OpKind::kGroupedGemm, &MakeGroupedGemm},
  };
  return kMakers;
}

}  // namespace foretrain
