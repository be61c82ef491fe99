// Kernel calls of a mixture of experts: router, dispatch and combination of rows, biases, and
// grouped GEMMs.
#include "runtime/ops/kernel_makers.h"

namespace foretrain {
namespace {

// The call keeps the router's name, by which a run can record or replay its choices.
KernelCall MakeRoute(const BoundOp& op) {
  KernelCall call =
      Call<&FtDeviceApi::route>({.logits = op.Pointer("logits"),
                                 .probs = op.Pointer<float>("probs"),
                                 .weights = op.Pointer<float>("weights"),
                                 .chosen = op.Pointer<std::int32_t>("chosen"),
                                 .places = op.Pointer<std::int32_t>("places"),
                                 .sources = op.Pointer<std::int32_t>("sources"),
                                 .counts = op.Pointer<std::int32_t>("counts"),
                                 .balance_counts = op.Pointer<std::int32_t>("balance_counts"),
                                 .rows = op.op.shape.rows,
                                 .experts = op.op.shape.experts,
                                 .per_token = op.op.shape.per_token,
                                 .capacity = op.op.shape.capacity,
                                 .pieces = op.op.shape.pieces,
                                 .balance_rows = op.op.shape.balance_rows,
                                 .expert_groups = op.op.shape.expert_groups,
                                 .group_limit = op.op.shape.group_limit,
                                 .softmax_first = op.op.softmax_first,
                                 .replay = 0,
                                 .dtype = op.Dtype("logits"),
                                 .choice_bias = op.Pointer("choice_bias"),
                                 .choice_bias_dtype = op.Dtype("choice_bias"),
                                 .group_top = op.op.shape.group_top,
                                 .sigmoid = op.op.sigmoid,
                                 .weight_scale = op.op.Get(Attribute::kWeightFactor)});
  call.router = op.op.name;
  return call;
}

// Gradient of the combine weights and of the balancing loss, whose weight is multiplied by the
// dynamic loss scale.
KernelCall MakeRouteBackward(const BoundOp& op) {
  return Call<&FtDeviceApi::route_backward>(
      {.probs = op.Pointer<float>("probs"),
       .weights = op.Pointer<float>("weights"),
       .chosen = op.Pointer<std::int32_t>("chosen"),
       .balance_counts = op.Pointer<std::int32_t>("balance_counts"),
       .d_weights = op.Pointer<float>("d_weights"),
       .d_logits = op.Pointer("d_logits"),
       .rows = op.op.shape.rows,
       .experts = op.op.shape.experts,
       .per_token = op.op.shape.per_token,
       .balance_rows = op.op.shape.balance_rows,
       .balance = op.op.Get(Attribute::kBalance),
       .softmax_first = op.op.softmax_first,
       .dtype = op.Dtype("d_logits"),
       .sigmoid = op.op.sigmoid,
       .weight_scale = op.op.Get(Attribute::kWeightFactor),
       .loss_scale = op.Pointer<float>("loss_scale")});
}

// sources[row] names the (token, choice) pair of an expert's row; -1 leaves the row zero.
KernelCall MakeExpertGather(const BoundOp& op) {
  return Call<&FtDeviceApi::expert_gather>({.x = op.Pointer("x"),
                                            .sources = op.Pointer<std::int32_t>("sources"),
                                            .weights = op.Pointer<float>("weights"),
                                            .out = op.Pointer("out"),
                                            .tokens = op.op.shape.elements,
                                            .expert_rows = op.op.shape.rows,
                                            .cols = op.op.shape.cols,
                                            .per_token = op.op.shape.per_token,
                                            .dtype = op.Dtype("x")});
}

// places[pair] names the expert row of a (token, choice) pair; -1: the pair was dropped.
KernelCall MakeExpertCombine(const BoundOp& op) {
  return Call<&FtDeviceApi::expert_combine>({.x = op.Pointer("x"),
                                             .places = op.Pointer<std::int32_t>("places"),
                                             .weights = op.Pointer<float>("weights"),
                                             .out = op.Pointer("out"),
                                             .tokens = op.op.shape.rows,
                                             .expert_rows = op.op.shape.elements,
                                             .cols = op.op.shape.cols,
                                             .per_token = op.op.shape.per_token,
                                             .dtype = op.Dtype("x")});
}

// The gradient of the combine weights: the dot product of dy with each chosen expert's output.
KernelCall MakeExpertDots(const BoundOp& op) {
  return Call<&FtDeviceApi::expert_dots>({.dy = op.Pointer("dy"),
                                          .x = op.Pointer("x"),
                                          .places = op.Pointer<std::int32_t>("places"),
                                          .out = op.Pointer<float>("out"),
                                          .tokens = op.op.shape.rows,
                                          .expert_rows = op.op.shape.elements,
                                          .cols = op.op.shape.cols,
                                          .per_token = op.op.shape.per_token,
                                          .dtype = op.Dtype("dy")});
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
  const OpShape& s = op.op.shape;
  FtExpertBias g{.x = op.Pointer("x"),
                 .bias = op.Pointer("bias"),
                 .counts = op.Pointer<std::int32_t>("counts"),
                 .rows = s.rows,
                 .cols = s.cols,
                 .experts = s.experts,
                 .groups = s.experts,
                 .count_stride = 0,
                 .scale = op.op.Get(Attribute::kFactor),
                 .dtype = op.Dtype("x"),
                 .bias_dtype = op.Dtype("bias")};
  SetRuns(op, "x", s.cols, g);
  return Call<&FtDeviceApi::expert_bias>(g);
}

KernelCall MakeExpertBiasGrad(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  FtExpertBiasGrad g{.dy = op.Pointer("dy"),
                     .bias_grad = op.Pointer("grad"),
                     .counts = op.Pointer<std::int32_t>("counts"),
                     .rows = s.rows,
                     .cols = s.cols,
                     .experts = s.experts,
                     .groups = s.experts,
                     .count_stride = 0,
                     .accumulate = op.op.accumulate,
                     .dtype = op.Dtype("dy"),
                     .grad_dtype = op.Dtype("grad")};
  SetRuns(op, "dy", s.cols, g);
  return Call<&FtDeviceApi::expert_bias_grad>(g);
}

// The mode follows from the transpositions: forward has b transposed, the weight gradient has a
// transposed, and the input gradient neither.
KernelCall MakeGroupedGemm(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  const FtGroupedMode mode = op.op.trans_a   ? FT_GROUPED_WEIGHT
                             : op.op.trans_b ? FT_GROUPED_FORWARD
                                             : FT_GROUPED_INPUT;
  FtGroupedGemm g{.a = op.Pointer("a"),
                  .b = op.Pointer("b"),
                  .c = op.Pointer("c"),
                  .counts = op.Pointer<std::int32_t>("counts"),
                  .rows = op.op.trans_a ? s.inner : s.rows,
                  .out = op.op.trans_a   ? s.rows
                         : op.op.trans_b ? s.cols
                                         : s.inner,
                  .in = op.op.trans_b ? s.inner : s.cols,
                  .experts = s.experts,
                  .groups = s.experts,
                  .count_stride = 0,
                  .mode = mode,
                  .accumulate = op.op.accumulate,
                  .dtype = op.Dtype("a"),
                  .c_dtype = op.Dtype("c"),
                  .compute = ComputeOf(op.op),
                  .a_scale = op.Pointer<float>("a_scales"),
                  .b_scale = op.Pointer<float>("b_scales"),
                  .a_scaling = ScalingOf(op.op).a,
                  .b_scaling = ScalingOf(op.op).b};
  SetRuns(op, "a", mode == FT_GROUPED_FORWARD ? g.in : g.out, g);
  return Call<&FtDeviceApi::grouped_gemm>(g);
}

}  // namespace

std::span<const KernelMaker> MoeMakers() {
  static constexpr std::array kMakers = {
      MakerOf<&FtDeviceApi::route>(OpKind::kRoute, &MakeRoute),
      MakerOf<&FtDeviceApi::route_backward>(OpKind::kRouteBackward, &MakeRouteBackward),
      MakerOf<&FtDeviceApi::expert_gather>(OpKind::kExpertGather, &MakeExpertGather),
      MakerOf<&FtDeviceApi::expert_combine>(OpKind::kExpertCombine, &MakeExpertCombine),
      MakerOf<&FtDeviceApi::expert_dots>(OpKind::kExpertDots, &MakeExpertDots),
      MakerOf<&FtDeviceApi::expert_bias>(OpKind::kExpertBias, &MakeExpertBias),
      MakerOf<&FtDeviceApi::expert_bias_grad>(OpKind::kExpertBiasGrad, &MakeExpertBiasGrad),
      MakerOf<&FtDeviceApi::grouped_gemm>(OpKind::kGroupedGemm, &MakeGroupedGemm),
  };
  return kMakers;
}

}  // namespace foretrain
