// Backward of a mixture of experts; experts.cc describes the layout and the forward.
#include "sim/program/blocks/experts/experts.h"

namespace foretrain {
namespace {

struct Backward {
  Layer& layer;
  BlockBuilder& b;
  Experts experts;
  const ExpertTensors& e;
  LayerTensors have;
  bool accumulate, accumulate_experts;
  std::int16_t dy;        // output gradient of the dispatched tokens
  std::int16_t whole_dy;  // output gradient of all rows, for shared experts

  std::int16_t d_up = kNoSlot, d_logits = kNoSlot, d_shared_up = kNoSlot, d_norm2 = kNoSlot;
  std::int16_t d_scores = kNoSlot;  // gradient of the scores that scale the shared output
  // Inputs of the experts if something was rebuilt from them, in the input half.
  ExpertInputs inputs = {};

  void Input() { b.Half(Pass::kBackwardInput); }
  void Weight() { b.Half(Pass::kBackwardWeight); }
  bool Lacks(LayerTensor tensor) const { return !Holds(have, tensor); }

  Op& ActivationGradient(const std::string& name, std::int16_t up, std::int16_t d_activated,
                         std::int16_t out, std::int64_t rows, std::int64_t width,
                         std::int16_t counts = kNoSlot) {
    const bool swiglu = layer.context.model.IsGated();
    Input();
    Op& op = b.Add(swiglu ? OpKind::kSwigluBackward : OpKind::kGeluBackward, name,
                   {In(up), In(d_activated), Out(out), In(counts)});
    op.activation = ActivationOf(layer.context.model.mlp);
    op.shape = {.rows = rows, .cols = width};
    return op;
  }
  std::string ActivationName(const std::string& of) const {
    return of + (layer.context.model.IsGated() ? ".swiglu.grad" : ".gelu.grad");
  }

  void Again();
  void Products(std::int16_t d_weights);
  void MakeInputs();
  void Piece(std::int64_t piece, const std::string& suffix, std::int16_t d_out,
             std::int16_t d_activated, std::int16_t made);
  void UpWeights();
  void Router(std::int16_t d_weights);
  void Shared(std::int16_t into, bool adds);
  std::int16_t Gate();
  void WeightsOfInputs();
};

// Rebuilds the inner tensors of experts and shared experts that were not saved. The rows travel to
// the experts once more, as the saved choice and counts say.
void Backward::Again() {
  const bool routed = Lacks(kExpertOut), shared = HasSharedExperts(layer) && Lacks(kUp);
  if (!routed && !shared) return;
  MakeInputs();
  if (routed) experts.Products(inputs.experts, /*routed=*/true);
  if (shared) SharedProducts(layer, inputs.shared);
  if (routed) have |= Only(kExpertActivated);
  if (shared) have |= Only(kActivated);
}

// norm2 of the dispatched tokens, in the input half.
void Backward::MakeInputs() {
  if (inputs.experts != kNoSlot) return;
  Input();
  if (Lacks(kNorm2)) layer.Norm2();
  have |= Only(kNorm2);
  inputs = InputsOfExperts(layer, "norm2.regather");
}

// One piece: gradient of down's output -> d_up -> gradient of the rows, and the gradient of down's
// weights.
void Backward::Piece(std::int64_t piece, const std::string& suffix, std::int16_t d_out,
                     std::int16_t d_activated, std::int16_t made) {
  const std::int64_t hidden = layer.hidden;
  const std::int16_t down = layer.Parameter("experts.down.weight", kExpertDownWeight);
  const std::int16_t up = layer.Parameter("experts.up.weight", kExpertUpWeight);
  const std::int16_t dy_rows = experts.Room(d_out, piece, hidden);
  const std::int16_t d_rows = experts.Room(d_activated, piece, e.ffn_width);
  const std::int16_t d_up_rows = experts.Room(d_up, piece, e.up_width);
  Input();
  experts.Grouped(Product::kInput, "experts.down.input_grad" + suffix, piece, dy_rows, down, d_rows,
                  hidden, e.ffn_width);
  Weight();
  if (Lacks(kExpertActivated)) experts.Activation(suffix + ".again", piece);
  experts.Grouped(Product::kWeight, "experts.down.weight_grad" + suffix, piece, dy_rows,
                  experts.Room(e.activated, piece, e.ffn_width),
                  layer.Gradient("d_experts.down.weight", kExpertDownWeight), hidden, e.ffn_width,
                  accumulate_experts || piece > 0);
  experts.BiasGradient("experts.down.bias_grad" + suffix, piece, kExpertDownBias, dy_rows, hidden,
                       accumulate_experts || piece > 0);
  Op& op =
      ActivationGradient(ActivationName("experts") + suffix, experts.Room(e.up, piece, e.up_width),
                         d_rows, d_up_rows, e.Even(piece), e.ffn_width, e.all_counts);
  experts.FollowCounts(piece, op.shape);
  experts.Grouped(Product::kInput, "experts.up.input_grad" + suffix, piece, d_up_rows, up,
                  experts.Room(made, piece, hidden), e.up_width, hidden);
}

// From dy to d_up and to d_norm2 of the dispatched tokens. The exchanges mirror the forward's:
// gradients travel to the experts, and back after the last GEMM. The gradient of the weights is
// that of what they multiply: rows of norm2, or the experts' outputs.
void Backward::Products(std::int16_t d_weights) {
  const std::int64_t hidden = layer.hidden;
  const std::int16_t d_out = b.Temporary("experts.d_out", e.AllRoom() * hidden);
  const std::int16_t d_activated = b.Temporary("experts.d_activated", e.AllRoom() * e.ffn_width);
  d_up = b.Temporary("experts.d_up", e.AllRoom() * e.up_width);
  const std::int16_t d_rows = b.Temporary("experts.d_dispatched", e.AllSent() * hidden);
  d_norm2 = b.Temporary("d_norm2", e.tokens * hidden);
  Input();
  const std::int16_t sent = experts.BeforeExchange("experts.d_out.sent", d_out, e.AllSent());
  experts.ForEachPiece([&](std::int64_t p, const std::string& suffix) {
    experts.Gather("experts.gather.output_grad" + suffix, p, dy, experts.OutputWeights(), sent);
    experts.Exchange("experts.return.output_grad" + suffix, p, sent, d_out, /*is_return=*/false);
  });
  const std::int16_t made =
      experts.BeforeExchange("experts.d_dispatched.made", d_rows, e.AllRoom());
  experts.ForEachPiece([&](std::int64_t p, const std::string& suffix) {
    Piece(p, suffix, d_out, d_activated, made);
    experts.Exchange("experts.dispatch.input_grad" + suffix, p, made, d_rows, /*is_return=*/true);
  });
  // Up's weight gradient overlaps with the last rows' way back.
  if (experts.Exchanges()) UpWeights();
  Input();
  experts.Combine("experts.combine.input_grad", d_rows, experts.InputWeights(), d_norm2);
  if (experts.InputWeights() == kNoSlot) return;
  MakeInputs();
  experts.Dots("experts.gather.weight_grad", inputs.experts, d_rows, d_weights);
}

// Summed over pieces: the first piece overwrites unless micro-batches accumulate.
void Backward::UpWeights() {
  Weight();
  const std::int16_t d_weight = layer.Gradient("d_experts.up.weight", kExpertUpWeight);
  experts.ForEachPiece([&](std::int64_t p, const std::string& suffix) {
    experts.Grouped(Product::kWeight, "experts.up.weight_grad" + suffix, p,
                    experts.Room(d_up, p, e.up_width), experts.Room(e.dispatched, p, layer.hidden),
                    d_weight, e.up_width, layer.hidden, accumulate_experts || p > 0);
    experts.BiasGradient("experts.up.bias_grad" + suffix, p, kExpertUpBias,
                         experts.Room(d_up, p, e.up_width), e.up_width,
                         accumulate_experts || p > 0);
  });
}

// The balancing loss is a mean over the micro-batches of the global batch, and over the parts of
// its rows that ranks route separately. If tp ranks route the same rows, each adds its share of the
// one loss. Hence the division by global_batch * cp * tp.
void Backward::Router(std::int16_t d_weights) {
  const Plan& plan = layer.context.plan;
  const std::int16_t weight = layer.Parameter("router.weight", kRouterWeight);
  d_logits = b.Temporary("d_router.logits", e.tokens * e.experts);
  Input();
  const bool scales = plan.HasDynamicScale() && layer.context.model.balance_weight > 0;
  const std::int16_t scale =
      scales ? b.Slot("loss_scale", 1, Category::kWorkspace, SlotRole::kLossScale) : kNoSlot;
  Op& op = b.Add(OpKind::kRouteBackward, "router.choice.grad",
                 {In(e.probs), In(e.weights), In(e.chosen), In(e.balance_counts), In(d_weights),
                  Out(d_logits), In(scale)});
  experts.SetRouter(op);
  const double loss_scale = plan.loss_scale > 0 ? plan.loss_scale : 1.0;
  op.Set(Attribute::kBalance, layer.context.model.balance_weight *
                                  static_cast<double>(plan.micro_batch) * loss_scale /
                                  static_cast<double>(plan.global_batch * plan.cp * plan.tp));
  const NumberFormat products = b.formats().products;
  b.ComputeIn(b.formats().attention);
  AddGemm(b, "router.input_grad", d_logits, weight, d_norm2, false,
          {.rows = e.tokens, .cols = layer.hidden, .inner = e.experts});
  b.ComputeIn(products);
}

// Gradient of the shared experts' output before scaling, and of the scores.
std::int16_t Backward::Gate() {
  if (!layer.context.model.shared_gate) return whole_dy;
  const std::int16_t d_out = b.Temporary("d_shared.out", layer.rows * layer.hidden);
  d_scores = b.TemporaryIn(NumberFormat::kFp32, "d_shared.scores", layer.rows);
  Input();
  b.Add(OpKind::kGateBackward, "shared.gated.grad",
        {In(whole_dy), In(e.shared_out), In(e.shared_scores), Out(d_out), Out(d_scores)})
      .shape = {.rows = layer.rows, .cols = layer.hidden};
  return d_out;
}

// Backward of the shared experts; the input gradient is written or added to `into`.
void Backward::Shared(std::int16_t into, bool adds) {
  const std::int16_t d_out = Gate();
  const std::int16_t down = layer.Parameter("down.weight", kDownWeight);
  const std::int16_t up = layer.Parameter("up.weight", kUpWeight);
  const std::int16_t d_activated = b.Temporary("d_activated", layer.rows * layer.ffn_width);
  d_shared_up = b.Temporary("d_up", layer.rows * layer.up_width);
  Input();
  b.LinearInputGradient("shared.down.input_grad", d_out, down, d_activated, layer.rows,
                        layer.hidden, layer.ffn_width);
  Weight();
  if (Lacks(kActivated)) layer.Activation(".shared.again", layer.up, layer.activated, layer.rows);
  b.LinearWeightGradient("shared.down", d_out, layer.activated,
                         layer.Gradient("d_down.weight", kDownWeight), kNoSlot, layer.rows,
                         layer.hidden, layer.ffn_width, accumulate);
  ActivationGradient(ActivationName("shared"), layer.up, d_activated, d_shared_up, layer.rows,
                     layer.ffn_width);
  AddGemm(b, "shared.up.input_grad", d_shared_up, up, into, false,
          {.rows = layer.rows, .cols = layer.hidden, .inner = layer.up_width}, adds);
  if (d_scores == kNoSlot) return;
  const NumberFormat products = b.formats().products;
  b.ComputeIn(b.formats().attention);
  AddGemm(b, "shared.gate.input_grad", d_scores, layer.Parameter("shared.gate.weight", kSharedGate),
          into, false, {.rows = layer.rows, .cols = layer.hidden, .inner = 1});
  b.ComputeIn(products);
}

// Weight gradients whose inputs are ready before the sum of d_norm2, issued so that they overlap
// with it.
void Backward::WeightsOfInputs() {
  Input();
  if (Lacks(kNorm2)) layer.Norm2();
  Weight();
  const ExpertInputs in =
      inputs.experts != kNoSlot ? inputs : InputsOfExperts(layer, "norm2.regather");
  if (!experts.Exchanges()) UpWeights();
  const NumberFormat products = b.formats().products;
  b.ComputeIn(b.formats().attention);
  b.LinearWeightGradient(
      "router", d_logits, in.experts, layer.Gradient("d_router.weight", kRouterWeight),
      layer.Gradient("d_router.bias", kRouterBias), e.tokens, e.experts, layer.hidden, accumulate);
  b.ComputeIn(products);
  if (!HasSharedExperts(layer)) return;
  if (d_scores != kNoSlot) {
    b.ComputeIn(b.formats().attention);
    b.LinearWeightGradient("shared.gate", d_scores, in.shared,
                           layer.Gradient("d_shared.gate.weight", kSharedGate), kNoSlot, layer.rows,
                           1, layer.hidden, accumulate);
    b.ComputeIn(products);
  }
  b.LinearWeightGradient("shared.up", d_shared_up, in.shared,
                         layer.Gradient("d_up.weight", kUpWeight), kNoSlot, layer.rows,
                         layer.up_width, layer.hidden, accumulate);
}

}  // namespace

// Order: gradients of the combine weights, routed experts, router, shared experts, then the one sum
// over tp. If each rank dispatches its own rows, only the shared part is summed, and the routed
// part is added to it afterwards.
std::int16_t ExpertsBackward(Layer& layer, LayerTensors have, const BlockRequest& request,
                             std::int16_t dy) {
  BlockBuilder& b = layer.b;
  const bool own = DealsOwnRows(layer);
  const ExpertTensors& e = layer.experts;
  b.Half(Pass::kBackwardInput);
  const bool needs_all = !own || HasSharedExperts(layer);
  const std::int16_t whole = needs_all ? layer.Gathered("experts.output_grad.gather", dy) : kNoSlot;
  const std::int16_t dealt = own ? dy : whole;
  Backward backward{
      layer, b,    Experts(layer), e, have, request.accumulate, request.accumulate_experts,
      dealt, whole};
  const std::int16_t d_weights =
      b.TemporaryIn(NumberFormat::kFp32, "d_weights", e.tokens * e.per_token);
  backward.Again();
  if (backward.experts.OutputWeights() != kNoSlot) {
    backward.experts.Dots("experts.combine.weight_grad", dealt, e.out, d_weights);
  }
  backward.Products(d_weights);
  backward.Router(d_weights);
  std::int16_t d_shared = backward.d_norm2;
  if (own)
    d_shared = HasSharedExperts(layer) ? b.Temporary("d_norm2.shared", layer.rows * layer.hidden)
                                       : kNoSlot;
  if (HasSharedExperts(layer)) backward.Shared(d_shared, !own);
  b.Half(Pass::kBackwardInput);
  std::int16_t sum = backward.d_norm2;
  if (d_shared != kNoSlot) sum = layer.Summed("experts.input_grad", d_shared);
  backward.WeightsOfInputs();
  if (!own || d_shared == kNoSlot) return sum;
  b.Half(Pass::kBackwardInput);
  AddRows(layer, "experts.input_grad.add", sum, backward.d_norm2);
  return backward.d_norm2;
}

}  // namespace foretrain
