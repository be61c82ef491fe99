// A mixture of experts in the place of a layer's MLP:
//   norm2 -> router -> choice -> rows by expert -> up -> act -> down -> weighed sum a token (+
//   shared experts) -> [tp sum] -> +
// Each tensor-parallel rank makes the same choice and holds a part of every expert's width, so that
// the weighed sums are parts as well and one sum over ranks serves experts and shared experts. A
// rank's gradient of the weights is that of its parts, and so is its router's: the one sum of
// norm2's gradient joins them too, and the router's weight is summed before the update. With
// expert_tp 1 each rank deals its own rows to whole experts instead, and only shared experts have a
// sum.
//
// With expert parallelism each rank holds some of the experts: rows go to them and come back by
// all-to-all. Of a capacity each expert has room for as many rows of a rank, what passes it is
// dropped, and rows that nobody fills are zero: parts are equal. Without one, ranks tell each other
// how many pairs they have for each expert, the host reads that, and parts are as long as it says;
// what comes is known by its bound alone. In moe_pieces the rows of one piece travel while products
// of another run (Jin et al. 2025).
#include <algorithm>
#include <cmath>

#include "sim/program/blocks/layer_ops.h"

namespace foretrain {
namespace {

enum class Product { kForward, kInput, kWeight };

std::int64_t CapacityOf(const BlockContext& context, std::int64_t tokens) {
  const double factor = context.plan.capacity_factor;
  if (factor <= 0) return 0;
  const double even = static_cast<double>(tokens) *
                      static_cast<double>(context.model.experts_per_token) /
                      static_cast<double>(context.model.experts);
  // A token goes to an expert once, so that none is sent more rows than there are tokens.
  const double rows = std::min(std::ceil(factor * even), static_cast<double>(tokens));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(rows));
}

class Experts {
 public:
  Experts(Layer& layer) : layer_(layer), b_(layer.b), e_(layer.experts) {}

  // Calls `run` with the number of each piece and what its ops' names end in.
  template <class Run>
  void ForEachPiece(const Run& run) const {
    for (std::int64_t p = 0; p < e_.pieces; ++p)
      run(p, e_.pieces > 1 ? "." + std::to_string(p) : "");
  }
  // The rows of a piece: of tokens' rows, and of experts'.
  std::int16_t Sent(std::int16_t tensor, std::int64_t piece, std::int64_t width) {
    return Part(tensor, e_.Sent(piece), width);
  }
  std::int16_t Room(std::int16_t tensor, std::int64_t piece, std::int64_t width) {
    return Part(tensor, e_.Room(piece), width);
  }

  // A linear of each expert from width `in` to `out`, on one piece of the experts' rows: (x, w, y),
  // (dy, w, dx) or (dy, x, dw).
  void Grouped(Product product, const std::string& name, std::int64_t piece, std::int16_t a,
               std::int16_t b, std::int16_t c, std::int64_t out, std::int64_t in,
               bool adds = false);
  void Activation(const std::string& suffix, std::int64_t piece);

  // Rows of tokens -> rows of experts; weights may be kNoSlot.
  void Gather(const std::string& name, std::int64_t piece, std::int16_t x, std::int16_t weights,
              std::int16_t out) {
    Op& op = b_.Add(
        OpKind::kExpertGather, OpClass::kMemoryBound, name,
        {In(x), In(Sent(e_.sources, piece, 1)), In(weights), Out(Sent(out, piece, layer_.hidden))});
    op.shape = RowsShape(e_.Sent(piece).count, e_.tokens);
  }
  void Combine(const std::string& name, std::int16_t x, std::int16_t weights, std::int16_t out) {
    Op& op = b_.Add(OpKind::kExpertCombine, OpClass::kMemoryBound, name,
                    {In(x), In(e_.places), In(weights), Out(out)});
    op.shape = RowsShape(e_.tokens, e_.AllSent());
  }
  void Dots(const std::string& name, std::int16_t dy, std::int16_t x, std::int16_t out) {
    Op& op = b_.Add(OpKind::kExpertDots, OpClass::kMemoryBound, name,
                    {In(dy), In(x), In(e_.places), Out(out)});
    op.shape = RowsShape(e_.tokens, e_.AllSent());
  }

  // Expert parallelism: the rows for each member's experts go to it, and come home the same way.
  // `made`: what comes of it. A temporary of `rows` for what is sent, or `made` itself where all
  // experts are here.
  std::int16_t BeforeExchange(const std::string& name, std::int16_t made, std::int64_t rows) {
    return Exchanges() ? b_.Temporary(name, rows * layer_.hidden) : made;
  }
  void Exchange(const std::string& name, std::int64_t piece, std::int16_t in, std::int16_t out,
                bool home);
  bool Exchanges() const { return e_.members > 1; }

  OpShape RouteShape() const {
    OpShape shape = RowsShape(e_.tokens, e_.AllSent());
    const ModelSpec& model = layer_.context.model;
    shape.cols = 0;
    shape.experts = static_cast<std::int32_t>(e_.experts);
    shape.capacity = e_.capacity;
    shape.pieces = static_cast<std::int32_t>(e_.pieces);
    shape.balance_rows = model.balance_tokens > 0 ? model.balance_tokens : e_.tokens;
    shape.expert_groups = static_cast<std::int32_t>(model.expert_groups);
    shape.group_limit = static_cast<std::int32_t>(model.groups_per_token);
    return shape;
  }
  bool SoftmaxFirst() const { return layer_.context.model.router == RouterKind::kSoftmaxTopK; }
  // Follows the counts of `piece`, whose operand is the op's last.
  void FollowCounts(std::int64_t piece, OpShape& shape) const {
    if (!e_.follows_counts) return;
    shape.members = static_cast<std::int32_t>(e_.members);
    shape.all_experts = static_cast<std::int32_t>(e_.experts);
    shape.pieces = static_cast<std::int32_t>(e_.pieces);
    shape.piece = static_cast<std::int32_t>(piece);
  }

  // Of this rank's tokens -> the experts' outputs, a row each.
  void Products(std::int16_t in);

 private:
  std::int16_t Part(std::int16_t tensor, RowRange range, std::int64_t width) {
    if (e_.pieces == 1 || tensor == kNoSlot) return tensor;
    return b_.View("piece", tensor, range.first * width, range.count * width);
  }
  OpShape RowsShape(std::int64_t rows, std::int64_t others) const {
    OpShape shape{.rows = rows, .cols = layer_.hidden, .elements = others};
    shape.per_token = static_cast<std::int32_t>(e_.per_token);
    return shape;
  }
  void Route(std::int16_t in);
  void ShareCounts();

  Layer& layer_;
  BlockBuilder& b_;
  const ExpertTensors& e_;
};

void Experts::Grouped(Product product, const std::string& name, std::int64_t piece, std::int16_t a,
                      std::int16_t b, std::int16_t c, std::int64_t out, std::int64_t in,
                      bool adds) {
  const std::int16_t counts = e_.capacity > 0     ? kNoSlot
                              : e_.follows_counts ? e_.all_counts
                                                  : e_.counts;
  Op& op = b_.Add(OpKind::kGroupedGemm, OpClass::kGemm, name,
                  {In(a), In(b), In(counts), adds ? InOut(c) : Out(c)});
  const std::int64_t rows = e_.Even(piece);
  op.accumulate = adds;
  op.trans_a = product == Product::kWeight;
  op.trans_b = product == Product::kForward;
  op.shape = {.experts = static_cast<std::int32_t>(e_.here), .capacity = e_.room};
  op.shape.rows = product == Product::kWeight ? out : rows;
  op.shape.cols = product == Product::kForward ? out : in;
  op.shape.inner = product == Product::kForward ? in : product == Product::kInput ? out : rows;
  FollowCounts(piece, op.shape);
}

void Experts::Activation(const std::string& suffix, std::int64_t piece) {
  const bool swiglu = layer_.context.model.mlp == MlpKind::kSwiglu;
  Op& op = b_.Add(swiglu ? OpKind::kSwigluForward : OpKind::kGeluForward, OpClass::kMemoryBound,
                  (swiglu ? "experts.swiglu" : "experts.gelu") + suffix,
                  {In(Room(e_.up, piece, e_.up_width)),
                   Out(Room(e_.activated, piece, e_.ffn_width)), In(e_.all_counts)});
  op.shape = {.rows = e_.Even(piece), .cols = e_.ffn_width};
  FollowCounts(piece, op.shape);
}

void Experts::Exchange(const std::string& name, std::int64_t piece, std::int16_t in,
                       std::int16_t out, bool home) {
  if (!Exchanges()) return;
  const std::int16_t from = home ? Room(in, piece, layer_.hidden) : Sent(in, piece, layer_.hidden);
  const std::int16_t to = home ? Sent(out, piece, layer_.hidden) : Room(out, piece, layer_.hidden);
  Op& op = e_.follows_counts
               ? b_.Add(OpKind::kAllToAllV, OpClass::kEpComm, name,
                        {In(from), Out(to), In(e_.all_counts)})
               : b_.Add(OpKind::kAllToAll, OpClass::kEpComm, name, {In(from), Out(to)});
  op.queue = Queue::kEp;
  op.group = GroupKind::kEp;
  op.inverse = e_.follows_counts && home;
  op.shape = {.cols = layer_.hidden, .elements = e_.Even(piece) * layer_.hidden};
  FollowCounts(piece, op.shape);
}

void Experts::Route(std::int16_t in) {
  const std::int16_t weight = layer_.Parameter("router.weight", kRouterWeight);
  const std::int16_t logits = b_.Temporary("router.logits", e_.tokens * e_.experts);
  b_.Linear("router", in, weight, kNoSlot, logits, e_.tokens, e_.experts, layer_.hidden);
  Op& op = b_.Add(OpKind::kRoute, OpClass::kMemoryBound, "router.choice",
                  {In(logits), Out(e_.probs), Out(e_.weights), Out(e_.chosen), Out(e_.places),
                   Out(e_.sources), Out(e_.counts), Out(e_.balance_counts)});
  op.softmax_first = SoftmaxFirst();
  op.shape = RouteShape();
}

// All members learn how many pairs each has for each expert, and so does the host.
void Experts::ShareCounts() {
  if (!e_.follows_counts) return;
  Op& gather = b_.Add(OpKind::kAllGather, OpClass::kEpComm, "experts.counts.gather",
                      {In(e_.counts), Out(e_.all_counts)});
  gather.queue = Queue::kEp;
  gather.group = GroupKind::kEp;
  gather.shape = {.elements = e_.members * e_.pieces * e_.experts};
  Op& read =
      b_.Add(OpKind::kReadCounts, OpClass::kHost, "experts.counts.read", {InOut(e_.all_counts)});
  read.queue = Queue::kHost;
  read.shape = {.elements = e_.members * e_.pieces * e_.experts};
  FollowCounts(0, read.shape);
}

void Experts::Products(std::int16_t in) {
  const std::int64_t hidden = layer_.hidden;
  Route(in);
  const std::int16_t sent = BeforeExchange("experts.sent", e_.dispatched, e_.AllSent());
  ForEachPiece([&](std::int64_t p, const std::string& suffix) {
    Gather("experts.gather" + suffix, p, in, kNoSlot, sent);
  });
  ShareCounts();
  ForEachPiece([&](std::int64_t p, const std::string& suffix) {
    Exchange("experts.dispatch" + suffix, p, sent, e_.dispatched, /*home=*/false);
  });
  const std::int16_t up = layer_.Parameter("experts.up.weight", kExpertUpWeight);
  const std::int16_t down = layer_.Parameter("experts.down.weight", kExpertDownWeight);
  const std::int16_t made = BeforeExchange("experts.made", e_.out, e_.AllRoom());
  ForEachPiece([&](std::int64_t p, const std::string& suffix) {
    Grouped(Product::kForward, "experts.up" + suffix, p, Room(e_.dispatched, p, hidden), up,
            Room(e_.up, p, e_.up_width), e_.up_width, hidden);
    Activation(suffix, p);
    Grouped(Product::kForward, "experts.down" + suffix, p, Room(e_.activated, p, e_.ffn_width),
            down, Room(made, p, hidden), hidden, e_.ffn_width);
    Exchange("experts.return" + suffix, p, made, e_.out, /*home=*/true);
  });
}

// Adds to what is in `y`.
void AddGemm(BlockBuilder& b, const std::string& name, std::int16_t x, std::int16_t weight,
             std::int16_t y, bool transposed, const OpShape& shape, bool adds = true) {
  Op& op = b.Add(OpKind::kGemm, OpClass::kGemm, name,
                 {In(x), In(weight), In(kNoSlot), adds ? InOut(y) : Out(y)});
  op.trans_b = transposed;
  op.accumulate = adds;
  op.shape = shape;
}

// y += x, of own rows.
void AddRows(Layer& layer, const char* name, std::int16_t x, std::int16_t y) {
  Op& op =
      layer.b.Add(OpKind::kAdd, OpClass::kMemoryBound, name, {In(y), In(x), In(kNoSlot), Out(y)});
  op.shape = {.rows = layer.own_rows, .cols = layer.hidden};
}

bool HasShared(const Layer& layer) { return layer.ffn_width > 0; }
// Experts work on own rows; all rows are for shared experts alone.
bool OwnRows(const Layer& layer) { return layer.context.plan.ExpertsSpanTp(); }

// norm2 for the experts and, where there are any, for the shared ones.
struct Inputs {
  std::int16_t experts = kNoSlot;
  std::int16_t shared = kNoSlot;
};
Inputs InputsOf(Layer& layer, const std::string& gather) {
  if (!OwnRows(layer)) {
    const std::int16_t all = layer.Gathered(gather, layer.norm2);
    return {all, all};
  }
  return {layer.norm2, HasShared(layer) ? layer.Gathered(gather, layer.norm2) : kNoSlot};
}

struct Backward {
  Layer& layer;
  BlockBuilder& b;
  Experts experts;
  const ExpertTensors& e;
  LayerTensors have;
  bool accumulate, accumulate_experts;
  std::int16_t dy;        // of the tokens that are dealt
  std::int16_t whole_dy;  // of all rows, for shared experts

  std::int16_t d_up = kNoSlot, d_logits = kNoSlot, d_shared_up = kNoSlot, d_norm2 = kNoSlot;

  void Input() { b.Half(Pass::kBackwardInput); }
  void Weight() { b.Half(Pass::kBackwardWeight); }
  bool Lacks(LayerTensor tensor) const { return !Holds(have, tensor); }

  Op& ActivationGradient(const std::string& name, std::int16_t up, std::int16_t d_activated,
                         std::int16_t out, std::int64_t rows, std::int64_t width,
                         std::int16_t counts = kNoSlot) {
    const bool swiglu = layer.context.model.mlp == MlpKind::kSwiglu;
    Input();
    Op& op = b.Add(swiglu ? OpKind::kSwigluBackward : OpKind::kGeluBackward, OpClass::kMemoryBound,
                   name, {In(up), In(d_activated), Out(out), In(counts)});
    op.shape = {.rows = rows, .cols = width};
    return op;
  }
  std::string ActivationName(const std::string& of) const {
    return of + (layer.context.model.mlp == MlpKind::kSwiglu ? ".swiglu.grad" : ".gelu.grad");
  }

  void Products();
  void Piece(std::int64_t piece, const std::string& suffix, std::int16_t d_out,
             std::int16_t d_activated, std::int16_t made);
  void UpWeights();
  void Router(std::int16_t d_weights);
  void Shared(std::int16_t into, bool adds);
  void WeightsOfInputs();
};

// One piece of d(down's output) -> d_up -> d(rows), and the gradient of down's weights.
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
  Op& op =
      ActivationGradient(ActivationName("experts") + suffix, experts.Room(e.up, piece, e.up_width),
                         d_rows, d_up_rows, e.Even(piece), e.ffn_width, e.all_counts);
  experts.FollowCounts(piece, op.shape);
  experts.Grouped(Product::kInput, "experts.up.input_grad" + suffix, piece, d_up_rows, up,
                  experts.Room(made, piece, hidden), e.up_width, hidden);
}

// dy -> d_norm2 of the tokens that are dealt, and d_up.
void Backward::Products() {
  const std::int64_t hidden = layer.hidden;
  const std::int16_t d_out = b.Temporary("experts.d_out", e.AllRoom() * hidden);
  const std::int16_t d_activated = b.Temporary("experts.d_activated", e.AllRoom() * e.ffn_width);
  d_up = b.Temporary("experts.d_up", e.AllRoom() * e.up_width);
  const std::int16_t d_rows = b.Temporary("experts.d_dispatched", e.AllSent() * hidden);
  d_norm2 = b.Temporary("d_norm2", e.tokens * hidden);
  Input();
  const std::int16_t sent = experts.BeforeExchange("experts.d_out.sent", d_out, e.AllSent());
  experts.ForEachPiece([&](std::int64_t p, const std::string& suffix) {
    experts.Gather("experts.gather.output_grad" + suffix, p, dy, e.weights, sent);
    experts.Exchange("experts.return.output_grad" + suffix, p, sent, d_out, /*home=*/false);
  });
  const std::int16_t made =
      experts.BeforeExchange("experts.d_dispatched.made", d_rows, e.AllRoom());
  experts.ForEachPiece([&](std::int64_t p, const std::string& suffix) {
    Piece(p, suffix, d_out, d_activated, made);
    experts.Exchange("experts.dispatch.input_grad" + suffix, p, made, d_rows, /*home=*/true);
  });
  // Beside the last rows on their way home.
  if (experts.Exchanges()) UpWeights();
  Input();
  experts.Combine("experts.combine.input_grad", d_rows, kNoSlot, d_norm2);
}

void Backward::UpWeights() {
  Weight();
  const std::int16_t d_weight = layer.Gradient("d_experts.up.weight", kExpertUpWeight);
  experts.ForEachPiece([&](std::int64_t p, const std::string& suffix) {
    experts.Grouped(Product::kWeight, "experts.up.weight_grad" + suffix, p,
                    experts.Room(d_up, p, e.up_width), experts.Room(e.dispatched, p, layer.hidden),
                    d_weight, e.up_width, layer.hidden, accumulate_experts || p > 0);
  });
}

// The loss is the mean over the micro-batches of the global batch, of each over the parts of its
// rows that ranks deal to experts one by one; where tensor-parallel ranks make the same choice each
// adds its share of what all know.
void Backward::Router(std::int16_t d_weights) {
  const Plan& plan = layer.context.plan;
  const std::int16_t weight = layer.Parameter("router.weight", kRouterWeight);
  d_logits = b.Temporary("d_router.logits", e.tokens * e.experts);
  Input();
  Op& op = b.Add(OpKind::kRouteBackward, OpClass::kMemoryBound, "router.choice.grad",
                 {In(e.probs), In(e.weights), In(e.chosen), In(e.balance_counts), In(d_weights),
                  Out(d_logits)});
  op.softmax_first = experts.SoftmaxFirst();
  const double loss_scale = plan.loss_scale > 0 ? plan.loss_scale : 1.0;
  op.scale = static_cast<float>(layer.context.model.balance_weight *
                                static_cast<double>(plan.micro_batch) * loss_scale /
                                static_cast<double>(plan.global_batch * plan.cp * plan.tp));
  op.shape = experts.RouteShape();
  AddGemm(b, "router.input_grad", d_logits, weight, d_norm2, false,
          {.rows = e.tokens, .cols = layer.hidden, .inner = e.experts});
}

// The input gradient goes, or is added, to `into`.
void Backward::Shared(std::int16_t into, bool adds) {
  const std::int16_t down = layer.Parameter("down.weight", kDownWeight);
  const std::int16_t up = layer.Parameter("up.weight", kUpWeight);
  const std::int16_t d_activated = b.Temporary("d_activated", layer.rows * layer.ffn_width);
  d_shared_up = b.Temporary("d_up", layer.rows * layer.up_width);
  Input();
  b.LinearInputGradient("shared.down.input_grad", whole_dy, down, d_activated, layer.rows,
                        layer.hidden, layer.ffn_width);
  Weight();
  if (Lacks(kActivated)) layer.Activation(".shared.again", layer.up, layer.activated, layer.rows);
  b.LinearWeightGradient("shared.down", whole_dy, layer.activated,
                         layer.Gradient("d_down.weight", kDownWeight), kNoSlot, layer.rows,
                         layer.hidden, layer.ffn_width, accumulate);
  ActivationGradient(ActivationName("shared"), layer.up, d_activated, d_shared_up, layer.rows,
                     layer.ffn_width);
  AddGemm(b, "shared.up.input_grad", d_shared_up, up, into, false,
          {.rows = layer.rows, .cols = layer.hidden, .inner = layer.up_width}, adds);
}

// Weight gradients that only wait for what the sum of d_norm2 waits for: they run beside it.
void Backward::WeightsOfInputs() {
  Input();
  if (Lacks(kNorm2)) layer.Norm2();
  Weight();
  const Inputs in = InputsOf(layer, "norm2.regather");
  if (!experts.Exchanges()) UpWeights();
  b.LinearWeightGradient("router", d_logits, in.experts,
                         layer.Gradient("d_router.weight", kRouterWeight), kNoSlot, e.tokens,
                         e.experts, layer.hidden, accumulate);
  if (!HasShared(layer)) return;
  b.LinearWeightGradient("shared.up", d_shared_up, in.shared,
                         layer.Gradient("d_up.weight", kUpWeight), kNoSlot, layer.rows,
                         layer.up_width, layer.hidden, accumulate);
}

}  // namespace

ExpertSizes::ExpertSizes(const BlockContext& context) {
  const ModelSpec& model = context.model;
  const Plan& plan = context.plan;
  if (model.experts == 0) return;
  experts = model.experts;
  members = plan.ep;
  here = experts / members;
  per_token = model.experts_per_token;
  tokens = plan.ExpertTokens();
  pieces = plan.moe_pieces;
  capacity = CapacityOf(context, tokens);
  room = (capacity + pieces - 1) / pieces;
  follows_counts = members > 1 && capacity == 0;
  headroom = plan.expert_headroom;
}

RowRange ExpertSizes::Sent(std::int64_t piece) const {
  if (capacity > 0) return {piece * experts * room, experts * room};
  const RowRange part = PieceOf(tokens, pieces, piece);
  return {part.first * per_token, part.count * per_token};
}

std::int64_t ExpertSizes::Even(std::int64_t piece) const { return Sent(piece).count; }

// A token has at most one row for each of its experts, and for each expert here.
std::int64_t ExpertSizes::RoomOf(std::int64_t piece) const {
  if (!follows_counts) return Sent(piece).count;
  const std::int64_t all =
      members * PieceOf(tokens, pieces, piece).count * std::min(per_token, here);
  if (headroom == 0) return all;
  const double enough = std::ceil(headroom * static_cast<double>(Even(piece)));
  return enough < static_cast<double>(all) ? static_cast<std::int64_t>(enough) : all;
}

RowRange ExpertSizes::Room(std::int64_t piece) const {
  std::int64_t first = 0;
  for (std::int64_t p = 0; p < piece; ++p) first += RoomOf(p);
  return {first, RoomOf(piece)};
}

void ExpertsForward(Layer& layer, std::int16_t y) {
  BlockBuilder& b = layer.b;
  Experts experts(layer);
  const ExpertTensors& e = layer.experts;
  const bool own = OwnRows(layer);
  layer.Norm2();
  const Inputs in = InputsOf(layer, "norm2.gather");
  experts.Products(in.experts);
  std::int16_t sum = b.Temporary("experts.sum", e.tokens * layer.hidden);
  experts.Combine("experts.combine", e.out, e.weights, sum);
  if (HasShared(layer)) {
    layer.MlpUp(".shared", in.shared, layer.up, layer.rows);
    layer.Activation(".shared", layer.up, layer.activated, layer.rows);
    const std::int16_t into = own ? b.Temporary("shared.sum", layer.rows * layer.hidden) : sum;
    AddGemm(b, "mlp.down.shared", layer.activated, layer.Parameter("down.weight", kDownWeight),
            into, true, {.rows = layer.rows, .cols = layer.hidden, .inner = layer.ffn_width}, !own);
    if (own) AddRows(layer, "experts.add", layer.Summed("mlp.down.shared", into), sum);
  }
  const std::int16_t branch = own ? sum : layer.Summed("experts.combine", sum);
  Op& op = b.Add(OpKind::kAdd, OpClass::kMemoryBound, "mlp.residual",
                 {In(layer.residual), In(branch), In(kNoSlot), Out(y)});
  op.shape = {.rows = layer.own_rows, .cols = layer.hidden};
}

void ExpertsAgain(Layer& layer) {
  layer.Norm2();
  const Inputs in = InputsOf(layer, "norm2.gather");
  Experts(layer).Products(in.experts);
  if (!HasShared(layer)) return;
  layer.MlpUp(".shared", in.shared, layer.up, layer.rows);
  layer.Activation(".shared", layer.up, layer.activated, layer.rows);
}

std::int16_t ExpertsBackward(Layer& layer, LayerTensors have, const BlockRequest& request,
                             std::int16_t dy) {
  BlockBuilder& b = layer.b;
  const bool own = OwnRows(layer);
  const ExpertTensors& e = layer.experts;
  b.Half(Pass::kBackwardInput);
  const bool needs_all = !own || HasShared(layer);
  const std::int16_t whole = needs_all ? layer.Gathered("experts.output_grad.gather", dy) : kNoSlot;
  const std::int16_t dealt = own ? dy : whole;
  Backward backward{
      layer, b,    Experts(layer), e, have, request.accumulate, request.accumulate_experts,
      dealt, whole};
  const std::int16_t d_weights = b.Temporary("d_weights", e.tokens * e.per_token);
  backward.experts.Dots("experts.combine.weight_grad", dealt, e.out, d_weights);
  backward.Products();
  backward.Router(d_weights);
  std::int16_t d_shared = backward.d_norm2;
  if (own)
    d_shared =
        HasShared(layer) ? b.Temporary("d_norm2.shared", layer.rows * layer.hidden) : kNoSlot;
  if (HasShared(layer)) backward.Shared(d_shared, !own);
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
