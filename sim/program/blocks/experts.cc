// A mixture of experts in the place of a layer's MLP:
//   norm2 -> router -> choice -> rows by expert -> up -> act -> down -> weighed sum a token (+
//   shared experts) -> [tp sum] -> +
// Each tensor-parallel rank makes the same choice and holds a part of every expert's width, so that
// the weighed sums are parts as well and one sum over ranks serves experts and shared experts. A
// rank's gradient of the weights is that of its parts, and so is its router's: the one sum of
// norm2's gradient joins them too, and the router's weight is summed before the update.
//
// Without a capacity the experts' rows are those of all pairs of a token and an expert: their
// number is known, only who has how many is not. With one, each expert has room for as many, what
// passes it is dropped, and rows that nobody fills are zero. With expert parallelism each rank
// holds some of the experts: rows go to them and come back by all-to-all, of equal parts, which a
// capacity gives.
#include <algorithm>
#include <cmath>

#include "sim/program/blocks/layer_ops.h"

namespace foretrain {
namespace {

enum class Product { kForward, kInput, kWeight };

class Experts {
 public:
  Experts(Layer& layer) : layer_(layer), b_(layer.b), e_(layer.experts) {}

  // A linear of each expert from width `in` to `out`: (x, w, y), (dy, w, dx) or (dy, x, dw).
  void Grouped(Product product, const std::string& name, std::int16_t a, std::int16_t b,
               std::int16_t c, std::int64_t out, std::int64_t in, bool adds = false) {
    const std::int16_t counts = e_.capacity > 0 ? kNoSlot : e_.counts;
    Op& op = b_.Add(OpKind::kGroupedGemm, OpClass::kGemm, name,
                    {In(a), In(b), In(counts), adds ? InOut(c) : Out(c)});
    op.accumulate = adds;
    op.trans_a = product == Product::kWeight;
    op.trans_b = product == Product::kForward;
    op.shape = {.experts = static_cast<std::int32_t>(e_.here), .capacity = e_.capacity};
    op.shape.rows = product == Product::kWeight ? out : e_.rows;
    op.shape.cols = product == Product::kForward ? out : in;
    op.shape.inner = product == Product::kForward ? in : product == Product::kInput ? out : e_.rows;
  }

  // Rows of tokens -> rows of experts; weights may be kNoSlot.
  void Gather(const std::string& name, std::int16_t x, std::int16_t weights, std::int16_t out) {
    Op& op = b_.Add(OpKind::kExpertGather, OpClass::kMemoryBound, name,
                    {In(x), In(e_.sources), In(weights), Out(out)});
    op.shape = RowsShape(e_.rows, layer_.rows);
  }
  void Combine(const std::string& name, std::int16_t x, std::int16_t weights, std::int16_t out) {
    Op& op = b_.Add(OpKind::kExpertCombine, OpClass::kMemoryBound, name,
                    {In(x), In(e_.places), In(weights), Out(out)});
    op.shape = RowsShape(layer_.rows, e_.rows);
  }
  void Dots(const std::string& name, std::int16_t dy, std::int16_t x, std::int16_t out) {
    Op& op = b_.Add(OpKind::kExpertDots, OpClass::kMemoryBound, name,
                    {In(dy), In(x), In(e_.places), Out(out)});
    op.shape = RowsShape(layer_.rows, e_.rows);
  }

  // Expert parallelism: the rows for each member's experts go to it, and come back the same way.
  // `made`: what comes of it. A temporary for what is sent, or `made` itself where all experts are
  // here.
  std::int16_t BeforeExchange(const std::string& name, std::int16_t made) {
    return Exchanges() ? b_.Temporary(name, e_.rows * layer_.hidden) : made;
  }
  void Exchange(const std::string& name, std::int16_t in, std::int16_t out) {
    if (!Exchanges()) return;
    Op& op = b_.Add(OpKind::kAllToAll, OpClass::kEpComm, name, {In(in), Out(out)});
    op.queue = Queue::kEp;
    op.group = GroupKind::kEp;
    op.shape = {.elements = e_.rows * layer_.hidden};
  }
  bool Exchanges() const { return layer_.context.plan.ep > 1; }

  void Activation(const std::string& suffix) {
    const bool swiglu = layer_.context.model.mlp == MlpKind::kSwiglu;
    Op& op = b_.Add(swiglu ? OpKind::kSwigluForward : OpKind::kGeluForward, OpClass::kMemoryBound,
                    (swiglu ? "experts.swiglu" : "experts.gelu") + suffix,
                    {In(e_.up), Out(e_.activated)});
    op.shape = {.rows = e_.rows, .cols = e_.ffn_width};
  }

  OpShape RouteShape() const {
    OpShape shape = RowsShape(layer_.rows, e_.rows);
    shape.cols = 0;
    shape.experts = static_cast<std::int32_t>(e_.experts);
    shape.capacity = e_.capacity;
    return shape;
  }
  bool SoftmaxFirst() const { return layer_.context.model.router == RouterKind::kSoftmaxTopK; }

  void Route(std::int16_t in);
  void Products(std::int16_t in);

 private:
  OpShape RowsShape(std::int64_t rows, std::int64_t others) const {
    OpShape shape{.rows = rows, .cols = layer_.hidden, .elements = others};
    shape.per_token = static_cast<std::int32_t>(e_.per_token);
    return shape;
  }

  Layer& layer_;
  BlockBuilder& b_;
  const ExpertTensors& e_;
};

void Experts::Route(std::int16_t in) {
  const std::int16_t weight = layer_.Parameter("router.weight", kRouterWeight);
  const std::int16_t logits = b_.Temporary("router.logits", layer_.rows * e_.experts);
  b_.Linear("router", in, weight, kNoSlot, logits, layer_.rows, e_.experts, layer_.hidden);
  Op& op = b_.Add(OpKind::kRoute, OpClass::kMemoryBound, "router.choice",
                  {In(logits), Out(e_.probs), Out(e_.weights), Out(e_.chosen), Out(e_.places),
                   Out(e_.sources), Out(e_.counts)});
  op.softmax_first = SoftmaxFirst();
  op.shape = RouteShape();
}

// norm2 of all rows -> the experts' outputs, a row each.
void Experts::Products(std::int16_t in) {
  Route(in);
  const std::int16_t sent = BeforeExchange("experts.sent", e_.dispatched);
  Gather("experts.gather", in, kNoSlot, sent);
  Exchange("experts.dispatch", sent, e_.dispatched);
  const std::int16_t up = layer_.Parameter("experts.up.weight", kExpertUpWeight);
  Grouped(Product::kForward, "experts.up", e_.dispatched, up, e_.up, e_.up_width, layer_.hidden);
  Activation("");
  const std::int16_t down = layer_.Parameter("experts.down.weight", kExpertDownWeight);
  const std::int16_t made = BeforeExchange("experts.made", e_.out);
  Grouped(Product::kForward, "experts.down", e_.activated, down, made, layer_.hidden, e_.ffn_width);
  Exchange("experts.return", made, e_.out);
}

// Adds to what is in `y`.
void AddGemm(BlockBuilder& b, const std::string& name, std::int16_t x, std::int16_t weight,
             std::int16_t y, bool transposed, const OpShape& shape) {
  Op& op = b.Add(OpKind::kGemm, OpClass::kGemm, name, {In(x), In(weight), In(kNoSlot), InOut(y)});
  op.trans_b = transposed;
  op.accumulate = true;
  op.shape = shape;
}

bool HasShared(const Layer& layer) { return layer.ffn_width > 0; }

struct Backward {
  Layer& layer;
  BlockBuilder& b;
  Experts experts;
  const ExpertTensors& e;
  LayerTensors have;
  bool accumulate, accumulate_experts;
  std::int16_t dy;  // of all rows

  std::int16_t d_up = kNoSlot, d_logits = kNoSlot, d_shared_up = kNoSlot, d_norm2 = kNoSlot;

  void Input() { b.Half(Pass::kBackwardInput); }
  void Weight() { b.Half(Pass::kBackwardWeight); }
  bool Lacks(LayerTensor tensor) const { return !Holds(have, tensor); }

  void ActivationGradient(const std::string& name, std::int16_t up, std::int16_t d_activated,
                          std::int16_t out, std::int64_t rows, std::int64_t width) {
    const bool swiglu = layer.context.model.mlp == MlpKind::kSwiglu;
    Input();
    Op& op =
        b.Add(swiglu ? OpKind::kSwigluBackward : OpKind::kGeluBackward, OpClass::kMemoryBound,
              name + (swiglu ? ".swiglu.grad" : ".gelu.grad"), {In(up), In(d_activated), Out(out)});
    op.shape = {.rows = rows, .cols = width};
  }

  void Down();
  void Up();
  void Router(std::int16_t d_weights);
  void Shared();
  void WeightsOfInputs();
};

// dy -> d_up, and the gradient of down's weights.
void Backward::Down() {
  const std::int16_t weight = layer.Parameter("experts.down.weight", kExpertDownWeight);
  const std::int16_t d_out = b.Temporary("experts.d_out", e.rows * layer.hidden);
  const std::int16_t d_activated = b.Temporary("experts.d_activated", e.rows * e.ffn_width);
  d_up = b.Temporary("experts.d_up", e.rows * e.up_width);
  Input();
  const std::int16_t sent = experts.BeforeExchange("experts.d_out.sent", d_out);
  experts.Gather("experts.gather.output_grad", dy, e.weights, sent);
  experts.Exchange("experts.return.output_grad", sent, d_out);
  experts.Grouped(Product::kInput, "experts.down.input_grad", d_out, weight, d_activated,
                  layer.hidden, e.ffn_width);
  Weight();
  if (Lacks(kExpertActivated)) experts.Activation(".again");
  experts.Grouped(Product::kWeight, "experts.down.weight_grad", d_out, e.activated,
                  layer.Gradient("d_experts.down.weight", kExpertDownWeight), layer.hidden,
                  e.ffn_width, accumulate_experts);
  ActivationGradient("experts", e.up, d_activated, d_up, e.rows, e.ffn_width);
}

// d_up -> d_norm2 of all rows.
void Backward::Up() {
  const std::int16_t weight = layer.Parameter("experts.up.weight", kExpertUpWeight);
  const std::int16_t d_rows = b.Temporary("experts.d_dispatched", e.rows * layer.hidden);
  d_norm2 = b.Temporary("d_norm2", layer.rows * layer.hidden);
  Input();
  const std::int16_t made = experts.BeforeExchange("experts.d_dispatched.made", d_rows);
  experts.Grouped(Product::kInput, "experts.up.input_grad", d_up, weight, made, e.up_width,
                  layer.hidden);
  experts.Exchange("experts.dispatch.input_grad", made, d_rows);
  experts.Combine("experts.combine.input_grad", d_rows, kNoSlot, d_norm2);
}

// The loss is the mean over the micro-batches of the global batch, of each over the parts of its
// sequences that context-parallel ranks have, whose choices are balanced one by one; of
// tensor-parallel ranks each adds its share of what all know.
void Backward::Router(std::int16_t d_weights) {
  const Plan& plan = layer.context.plan;
  const std::int16_t weight = layer.Parameter("router.weight", kRouterWeight);
  d_logits = b.Temporary("d_router.logits", layer.rows * e.experts);
  Input();
  Op& op =
      b.Add(OpKind::kRouteBackward, OpClass::kMemoryBound, "router.choice.grad",
            {In(e.probs), In(e.weights), In(e.chosen), In(e.counts), In(d_weights), Out(d_logits)});
  op.softmax_first = experts.SoftmaxFirst();
  const double loss_scale = plan.loss_scale > 0 ? plan.loss_scale : 1.0;
  op.scale = static_cast<float>(layer.context.model.balance_weight *
                                static_cast<double>(plan.micro_batch) * loss_scale /
                                static_cast<double>(plan.global_batch * plan.cp * plan.tp));
  op.shape = experts.RouteShape();
  AddGemm(b, "router.input_grad", d_logits, weight, d_norm2, false,
          {.rows = layer.rows, .cols = layer.hidden, .inner = e.experts});
}

void Backward::Shared() {
  const std::int16_t down = layer.Parameter("down.weight", kDownWeight);
  const std::int16_t up = layer.Parameter("up.weight", kUpWeight);
  const std::int16_t d_activated = b.Temporary("d_activated", layer.rows * layer.ffn_width);
  d_shared_up = b.Temporary("d_up", layer.rows * layer.up_width);
  Input();
  b.LinearInputGradient("shared.down.input_grad", dy, down, d_activated, layer.rows, layer.hidden,
                        layer.ffn_width);
  Weight();
  if (Lacks(kActivated)) layer.Activation(".shared.again", layer.up, layer.activated, layer.rows);
  b.LinearWeightGradient("shared.down", dy, layer.activated,
                         layer.Gradient("d_down.weight", kDownWeight), kNoSlot, layer.rows,
                         layer.hidden, layer.ffn_width, accumulate);
  ActivationGradient("shared", layer.up, d_activated, d_shared_up, layer.rows, layer.ffn_width);
  AddGemm(b, "shared.up.input_grad", d_shared_up, up, d_norm2, false,
          {.rows = layer.rows, .cols = layer.hidden, .inner = layer.up_width});
}

// Weight gradients that only wait for what the sum of d_norm2 waits for: they run beside it.
void Backward::WeightsOfInputs() {
  Input();
  if (Lacks(kNorm2)) layer.Norm2();
  Weight();
  const std::int16_t in = layer.Gathered("norm2.regather", layer.norm2);
  experts.Grouped(Product::kWeight, "experts.up.weight_grad", d_up, e.dispatched,
                  layer.Gradient("d_experts.up.weight", kExpertUpWeight), e.up_width, layer.hidden,
                  accumulate_experts);
  b.LinearWeightGradient("router", d_logits, in, layer.Gradient("d_router.weight", kRouterWeight),
                         kNoSlot, layer.rows, e.experts, layer.hidden, accumulate);
  if (!HasShared(layer)) return;
  b.LinearWeightGradient("shared.up", d_shared_up, in, layer.Gradient("d_up.weight", kUpWeight),
                         kNoSlot, layer.rows, layer.up_width, layer.hidden, accumulate);
}

}  // namespace

std::int64_t ExpertCapacity(const BlockContext& context) {
  const double factor = context.plan.capacity_factor;
  if (factor <= 0) return 0;
  const double even = static_cast<double>(context.Rows()) *
                      static_cast<double>(context.model.experts_per_token) /
                      static_cast<double>(context.model.experts);
  // A token goes to an expert once, so that none is sent more rows than there are tokens.
  const double rows = std::min(std::ceil(factor * even), static_cast<double>(context.Rows()));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(rows));
}

std::int64_t ExpertRows(const BlockContext& context) {
  const std::int64_t capacity = ExpertCapacity(context);
  return capacity > 0 ? capacity * context.model.experts
                      : context.Rows() * context.model.experts_per_token;
}

void ExpertsForward(Layer& layer, std::int16_t y) {
  BlockBuilder& b = layer.b;
  Experts experts(layer);
  layer.Norm2();
  const std::int16_t in = layer.Gathered("norm2.gather", layer.norm2);
  experts.Products(in);
  const std::int16_t sum = b.Temporary("experts.sum", layer.rows * layer.hidden);
  experts.Combine("experts.combine", layer.experts.out, layer.experts.weights, sum);
  if (HasShared(layer)) {
    layer.MlpUp(".shared", in, kNoSlot, layer.up, layer.rows);
    layer.Activation(".shared", layer.up, layer.activated, layer.rows);
    AddGemm(b, "mlp.down.shared", layer.activated, layer.Parameter("down.weight", kDownWeight), sum,
            true, {.rows = layer.rows, .cols = layer.hidden, .inner = layer.ffn_width});
  }
  const std::int16_t branch = layer.Summed("experts.combine", sum);
  Op& op = b.Add(OpKind::kAdd, OpClass::kMemoryBound, "mlp.residual",
                 {In(layer.residual), In(branch), In(kNoSlot), Out(y)});
  op.shape = {.rows = layer.own_rows, .cols = layer.hidden};
}

void ExpertsAgain(Layer& layer) {
  layer.Norm2();
  const std::int16_t in = layer.Gathered("norm2.gather", layer.norm2);
  Experts(layer).Products(in);
  if (!HasShared(layer)) return;
  layer.MlpUp(".shared", in, kNoSlot, layer.up, layer.rows);
  layer.Activation(".shared", layer.up, layer.activated, layer.rows);
}

std::int16_t ExpertsBackward(Layer& layer, LayerTensors have, const BlockRequest& request,
                             std::int16_t dy) {
  BlockBuilder& b = layer.b;
  b.Half(Pass::kBackwardInput);
  const std::int16_t whole_dy = layer.Gathered("experts.output_grad.gather", dy);
  Backward backward{layer,
                    b,
                    Experts(layer),
                    layer.experts,
                    have,
                    request.accumulate,
                    request.accumulate_experts,
                    whole_dy};
  const std::int16_t d_weights = b.Temporary("d_weights", layer.rows * layer.experts.per_token);
  backward.experts.Dots("experts.combine.weight_grad", whole_dy, layer.experts.out, d_weights);
  backward.Down();
  backward.Up();
  backward.Router(d_weights);
  if (HasShared(layer)) backward.Shared();
  b.Half(Pass::kBackwardInput);
  const std::int16_t own = layer.Summed("experts.input_grad", backward.d_norm2);
  backward.WeightsOfInputs();
  return own;
}

}  // namespace foretrain
