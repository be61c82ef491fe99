// Mixture of experts: the router, rows to and from the experts, and their products.
#include "runtime/ops/kernel_call.h"

namespace foretrain {

KernelCall MakeRoute(const BoundOp& op) {
  KernelCall call;
  call.args.route = {.logits = op.Pointer(0),
                     .probs = op.Pointer<float>(1),
                     .weights = op.Pointer<float>(2),
                     .chosen = op.Pointer<std::int32_t>(3),
                     .places = op.Pointer<std::int32_t>(4),
                     .sources = op.Pointer<std::int32_t>(5),
                     .counts = op.Pointer<std::int32_t>(6),
                     .balance_counts = op.Pointer<std::int32_t>(7),
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
                     .dtype = op.Dtype(0),
                     .choice_bias = op.Pointer(8),
                     .choice_bias_dtype = op.Dtype(8),
                     .group_top = op.op.shape.group_top,
                     .sigmoid = op.op.sigmoid,
                     .weight_scale = op.op.parameter};
  call.router = op.op.name;
  call.launch = CallOf<&FtDeviceApi::route, &KernelArgs::route>;
  return call;
}

KernelCall MakeRouteBackward(const BoundOp& op) {
  KernelCall call;
  call.args.route_backward = {.probs = op.Pointer<float>(0),
                              .weights = op.Pointer<float>(1),
                              .chosen = op.Pointer<std::int32_t>(2),
                              .balance_counts = op.Pointer<std::int32_t>(3),
                              .d_weights = op.Pointer<float>(4),
                              .d_logits = op.Pointer(5),
                              .rows = op.op.shape.rows,
                              .experts = op.op.shape.experts,
                              .per_token = op.op.shape.per_token,
                              .balance_rows = op.op.shape.balance_rows,
                              .balance = op.op.scale,
                              .softmax_first = op.op.softmax_first,
                              .dtype = op.Dtype(5),
                              .sigmoid = op.op.sigmoid,
                              .weight_scale = op.op.parameter,
                              .loss_scale = op.Pointer<float>(6)};
  call.launch = CallOf<&FtDeviceApi::route_backward, &KernelArgs::route_backward>;
  return call;
}

KernelCall MakeExpertGather(const BoundOp& op) {
  KernelCall call;
  call.args.expert_gather = {.x = op.Pointer(0),
                             .sources = op.Pointer<std::int32_t>(1),
                             .weights = op.Pointer<float>(2),
                             .out = op.Pointer(3),
                             .tokens = op.op.shape.elements,
                             .expert_rows = op.op.shape.rows,
                             .cols = op.op.shape.cols,
                             .per_token = op.op.shape.per_token,
                             .dtype = op.Dtype(0)};
  call.launch = CallOf<&FtDeviceApi::expert_gather, &KernelArgs::expert_gather>;
  return call;
}

KernelCall MakeExpertCombine(const BoundOp& op) {
  KernelCall call;
  call.args.expert_combine = {.x = op.Pointer(0),
                              .places = op.Pointer<std::int32_t>(1),
                              .weights = op.Pointer<float>(2),
                              .out = op.Pointer(3),
                              .tokens = op.op.shape.rows,
                              .expert_rows = op.op.shape.elements,
                              .cols = op.op.shape.cols,
                              .per_token = op.op.shape.per_token,
                              .dtype = op.Dtype(0)};
  call.launch = CallOf<&FtDeviceApi::expert_combine, &KernelArgs::expert_combine>;
  return call;
}

KernelCall MakeExpertDots(const BoundOp& op) {
  KernelCall call;
  call.args.expert_dots = {.dy = op.Pointer(0),
                           .x = op.Pointer(1),
                           .places = op.Pointer<std::int32_t>(2),
                           .out = op.Pointer<float>(3),
                           .tokens = op.op.shape.rows,
                           .expert_rows = op.op.shape.elements,
                           .cols = op.op.shape.cols,
                           .per_token = op.op.shape.per_token,
                           .dtype = op.Dtype(0)};
  call.launch = CallOf<&FtDeviceApi::expert_dots, &KernelArgs::expert_dots>;
  return call;
}

namespace {

// Runs of experts' rows, of which operand 0 has some of `width`.
template <class Arguments>
void SetRuns(const BoundOp& op, std::int64_t width, Arguments& g) {
  const OpShape& s = op.op.shape;
  if (s.capacity > 0) g.groups = g.rows / s.capacity;
  if (s.members == 0) return;
  // A run of each member's rows for each expert here; rows: as many as there is room for.
  g.counts += std::int64_t{s.piece} * s.all_experts + std::int64_t{op.member} * s.experts;
  g.count_stride = std::int64_t{s.pieces} * s.all_experts;
  g.groups = std::int64_t{s.members} * s.experts;
  g.rows = ElementsIn(op.op.formats[0], op.bytes[0]) / width;
}

}  // namespace

KernelCall MakeExpertBias(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  KernelCall call;
  FtExpertBias& g = call.args.expert_bias;
  g = {.x = op.Pointer(0),
       .bias = op.Pointer(1),
       .counts = op.Pointer<std::int32_t>(2),
       .rows = s.rows,
       .cols = s.cols,
       .experts = s.experts,
       .groups = s.experts,
       .count_stride = 0,
       .scale = op.op.scale,
       .dtype = op.Dtype(0),
       .bias_dtype = op.Dtype(1)};
  SetRuns(op, s.cols, g);
  call.launch = CallOf<&FtDeviceApi::expert_bias, &KernelArgs::expert_bias>;
  return call;
}

KernelCall MakeExpertBiasGrad(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  KernelCall call;
  FtExpertBiasGrad& g = call.args.expert_bias_grad;
  g = {.dy = op.Pointer(0),
       .bias_grad = op.Pointer(2),
       .counts = op.Pointer<std::int32_t>(1),
       .rows = s.rows,
       .cols = s.cols,
       .experts = s.experts,
       .groups = s.experts,
       .count_stride = 0,
       .accumulate = op.op.accumulate,
       .dtype = op.Dtype(0),
       .grad_dtype = op.Dtype(2)};
  SetRuns(op, s.cols, g);
  call.launch = CallOf<&FtDeviceApi::expert_bias_grad, &KernelArgs::expert_bias_grad>;
  return call;
}

KernelCall MakeGroupedGemm(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  const FtGroupedMode mode = op.op.trans_a   ? FT_GROUPED_WEIGHT
                             : op.op.trans_b ? FT_GROUPED_FORWARD
                                             : FT_GROUPED_INPUT;
  KernelCall call;
  FtGroupedGemm& g = call.args.grouped_gemm;
  g = {.a = op.Pointer(0),
       .b = op.Pointer(1),
       .c = op.Pointer(3),
       .counts = op.Pointer<std::int32_t>(2),
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
       .dtype = op.Dtype(0),
       .c_dtype = op.Dtype(3),
       .compute = ComputeOf(op.op),
       .a_scale = op.Pointer<float>(4),
       .b_scale = op.Pointer<float>(5),
       .a_scaling = ScalingOf(op.op).a,
       .b_scaling = ScalingOf(op.op).b};
  SetRuns(op, mode == FT_GROUPED_FORWARD ? g.in : g.out, g);
  call.launch = CallOf<&FtDeviceApi::grouped_gemm, &KernelArgs::grouped_gemm>;
  return call;
}

}  // namespace foretrain
