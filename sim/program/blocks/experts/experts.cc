// Mixture of experts in place of a layer's MLP:
//
//   norm2 -> router -> top-k choice -> rows by expert -> up -> act -> down -> weighted sum a token
//   (+ shared experts) -> [tp sum] -> +
//
// Every tensor-parallel rank makes the same choice and holds a part of each expert's width. The
// weighted sums are then partial, and one sum over tp serves experts and shared experts. Gradients
// of weights are those of a rank's parts. The router's gradient is partial too: the sum of norm2's
// gradient covers its share, and the gradient of its weight is all-reduced before the update.
// With expert_tp 1 each rank dispatches its own rows to whole experts, and only shared experts need
// a sum. If weights multiply the experts' inputs, the gather applies them and the sum is plain.
//
// With expert parallelism each rank holds some of the experts, and rows travel there and back by
// all-to-all. With a capacity, each expert has a fixed number of rows for each rank. Rows beyond it
// are dropped and unused rows are zero, so all parts are equal. Without a capacity, ranks exchange
// their counts for each expert and the host reads them; parts have those lengths, and buffers are
// sized by a bound. With moe_pieces > 1 the rows of one piece travel while another piece's GEMMs
// run (Jin et al. 2025).
//
// Longer than 400 lines: routing, dispatch, experts and combination share the tensors of one layer.
#include "sim/program/blocks/experts/experts.h"

#include <algorithm>
#include <cmath>

namespace foretrain {
namespace {

// Max rows of one expert: factor * tokens * top-k / experts, rounded up; 0 without a capacity
// factor.
std::int64_t CapacityOf(const BlockContext& context, std::int64_t tokens) {
  const double factor = context.plan.capacity_factor;
  if (factor <= 0) return 0;
  const double even = static_cast<double>(tokens) *
                      static_cast<double>(context.model.experts_per_token) /
                      static_cast<double>(context.model.experts);
  // A token goes to an expert at most once, so an expert never gets more rows than there are
  // tokens.
  const double rows = std::min(std::ceil(factor * even), static_cast<double>(tokens));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(rows));
}

}  // namespace

void Layer::MakeExpertTensors(const TensorMaker& make) {
  ExpertTensors& e = experts;
  const std::int64_t pairs = e.tokens * e.per_token, all = e.pieces * e.experts;
  const std::int64_t balanced = context.model.balance_tokens;
  const NumberFormat activation = b.formats().activations, exact = NumberFormat::kFp32;
  e.probs = make(exact, "probs", e.tokens * e.experts, kProbs);
  e.weights = make(exact, "weights", pairs, kExpertWeights);
  e.chosen = make(exact, "chosen", pairs, kChosen);
  e.places = make(exact, "places", pairs, kPlaces);
  e.sources = make(exact, "sources", e.AllSent(), kSources);
  // The counts are saved only if every row stays on this rank: the backward's grouped GEMMs then
  // read them. With exchanged counts they read all_counts instead, and with a capacity none.
  e.counts = e.capacity > 0     ? b.TemporaryIn(exact, "counts", e.experts)
             : e.follows_counts ? b.TemporaryIn(exact, "counts", all)
                                : make(exact, "counts", all, kCounts);
  e.all_counts = make(exact, "all_counts", e.follows_counts ? e.members * all : 0, kAllCounts);
  e.balance_counts = make(exact, "balance_counts",
                          (balanced > 0 ? e.tokens / balanced : 1) * e.experts, kBalanceCounts);
  e.dispatched = make(OfProducts(), "dispatched", e.AllRoom() * hidden, kDispatched);
  e.up = make(activation, "experts.up", e.AllRoom() * e.up_width, kExpertUp);
  e.activated =
      make(OfProducts(), "experts.activated", e.AllRoom() * e.ffn_width, kExpertActivated);
  if (e.pieces > 1) {
    std::vector<std::int64_t> of_rows, of_activated;
    for (std::int64_t p = 0; p < e.pieces; ++p) {
      of_rows.push_back(e.Room(p).first * hidden);
      of_activated.push_back(e.Room(p).first * e.ffn_width);
    }
    b.CutAt(e.dispatched, std::move(of_rows));
    b.CutAt(e.activated, std::move(of_activated));
  }
  // The backward reads the outputs for the gradient of their weights.
  e.out = context.model.weigh_expert_inputs
              ? b.Temporary("experts.out", e.AllSent() * hidden)
              : make(activation, "experts.out", e.AllSent() * hidden, kExpertOut);
  if (!context.model.shared_gate) return;
  e.shared_out = make(activation, "shared.out", rows * hidden, kSharedOut);
  e.shared_scores = make(exact, "shared.scores", rows, kSharedScores);
}

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

// With a capacity every piece has the same fixed rows; else a piece is a range of tokens times
// top-k.
RowRange ExpertSizes::Sent(std::int64_t piece) const {
  if (capacity > 0) return {piece * experts * room, experts * room};
  const RowRange part = PieceOf(tokens, pieces, piece);
  return {part.first * per_token, part.count * per_token};
}

std::int64_t ExpertSizes::Even(std::int64_t piece) const { return Sent(piece).count; }

// Upper bound on the rows that arrive: a token sends at most min(top-k, experts here) rows to this
// rank. `headroom` replaces the bound by a multiple of the even share, if that is smaller.
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

// Only a new cast gets the expected row count; a reused one has it already.
ProductOperand Experts::RowsForProduct(const std::string& name, std::int16_t rows,
                                       std::int64_t piece, std::int64_t width, OperandRole role) {
  const ProductOperand cast = b_.ForProduct({name, width, CountsOfRows()}, rows, role);
  const bool is_new = b_.Last().name == name + ".cast";
  if (is_new) ExpectRows(b_.Last(), piece, width);
  return cast;
}

void Experts::CastRows(const std::string& name, std::int16_t from, std::int16_t to,
                       std::int64_t piece, std::int64_t width) {
  b_.Cast(name, from, to, width, CountsOfRows());
  ExpectRows(b_.Last(), piece, width);
}

void Experts::ExpectRows(Op& cast, std::int64_t piece, std::int64_t width) const {
  if (!e_.follows_counts) return;
  cast.shape.inner = e_.Even(piece);
  cast.shape.cols = width;
  FollowCounts(piece, cast.shape);
}

// One grouped GEMM for all experts of the piece: a GEMM for each expert over its rows, as one op.
// The shape states even rows, which the cost model uses; the kernel takes the true ones from the
// counts.
void Experts::Grouped(Product product, const std::string& name, std::int64_t piece, std::int16_t a,
                      std::int16_t b, std::int16_t c, std::int64_t out, std::int64_t in,
                      bool adds) {
  const bool forward = product == Product::kForward, of_weight = product == Product::kWeight;
  const ProductOperand left =
      RowsForProduct(name + (forward ? ".input" : ".output_grad"), a, piece, forward ? in : out,
                     forward     ? OperandRole::kInput
                     : of_weight ? OperandRole::kOutputGradientColumns
                                 : OperandRole::kOutputGradient);
  const ProductOperand right =
      of_weight ? RowsForProduct(name + ".input", b, piece, in, OperandRole::kInputColumns)
                : b_.ForProduct({name + ".weight", in}, b, OperandRole::kWeight);
  const Operand made = adds ? InOut(c) : Out(c);
  Op& op = left.scales == kNoSlot
               ? b_.Add(OpKind::kGroupedGemm, name,
                        {In(left.numbers), In(right.numbers), In(Counts()), made})
               : b_.Add(OpKind::kGroupedGemm, name,
                        {In(left.numbers), In(right.numbers), In(Counts()), made, In(left.scales),
                         In(right.scales)});
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

OpShape Experts::BiasShape(std::int64_t piece, std::int64_t width) const {
  OpShape shape{.rows = e_.Even(piece),
                .cols = width,
                .experts = static_cast<std::int32_t>(e_.here),
                .capacity = e_.room};
  FollowCounts(piece, shape);
  return shape;
}

void Experts::Bias(const std::string& name, std::int64_t piece, LayerParameter bias,
                   std::int16_t rows, std::int64_t width, double scale) {
  if (!layer_.context.model.expert_bias) return;
  Op& op = b_.Add(OpKind::kExpertBias, name,
                  {InOut(rows), In(layer_.Parameter("experts.bias", bias)), In(Counts())});
  op.Set(Attribute::kFactor, scale);
  op.shape = BiasShape(piece, width);
}

void Experts::BiasGradient(const std::string& name, std::int64_t piece, LayerParameter bias,
                           std::int16_t d_rows, std::int64_t width, bool adds) {
  const std::int16_t grad = layer_.Gradient("d_experts.bias", bias);
  if (grad == kNoSlot) return;
  Op& op = b_.Add(OpKind::kExpertBiasGrad, name,
                  {In(d_rows), In(Counts()), adds ? InOut(grad) : Out(grad)});
  op.accumulate = adds;
  op.shape = BiasShape(piece, width);
}

// With quantized products the activation is written wide first and then cast, so that only codes
// are kept.
void Experts::Activation(const std::string& suffix, std::int64_t piece) {
  const bool swiglu = layer_.context.model.IsGated();
  const std::string name = (swiglu ? "experts.swiglu" : "experts.gelu") + suffix;
  const std::int16_t out = Room(e_.activated, piece, e_.ffn_width);
  const std::int16_t to = layer_.quantizes ? b_.Temporary("experts.activated.wide" + suffix,
                                                          e_.Room(piece).count * e_.ffn_width)
                                           : out;
  Op& op = b_.Add(swiglu ? OpKind::kSwigluForward : OpKind::kGeluForward, name,
                  {In(Room(e_.up, piece, e_.up_width)), Out(to), In(e_.all_counts)});
  op.activation = ActivationOf(layer_.context.model.mlp);
  op.shape = {.rows = e_.Even(piece), .cols = e_.ffn_width};
  FollowCounts(piece, op.shape);
  if (layer_.quantizes) CastRows(name + ".cast", to, out, piece, e_.ffn_width);
}

// All-to-all of one piece over the ep group on its own queue, so that the compute queue continues.
// Variable sizes come from the counts; `is_return` is the way back, with sizes transposed.
void Experts::Exchange(const std::string& name, std::int64_t piece, std::int16_t in,
                       std::int16_t out, bool is_return) {
  if (!Exchanges()) return;
  const std::int16_t from =
      is_return ? Room(in, piece, layer_.hidden) : Sent(in, piece, layer_.hidden);
  const std::int16_t to =
      is_return ? Sent(out, piece, layer_.hidden) : Room(out, piece, layer_.hidden);
  Op& op = e_.follows_counts
               ? b_.Add(OpKind::kAllToAllV, OpClass::kEpComm, name,
                        {In(from), Out(to), In(e_.all_counts)})
               : b_.Add(OpKind::kAllToAll, OpClass::kEpComm, name, {In(from), Out(to)});
  op.queue = Queue::kEp;
  op.group = GroupKind::kEp;
  op.inverse = e_.follows_counts && is_return;
  op.shape = {.cols = layer_.hidden,
              .elements = e_.Even(piece) * layer_.hidden,
              .per_token = static_cast<std::int32_t>(e_.per_token)};
  FollowCounts(piece, op.shape);
}

// Router logits and choice. The router's GEMM runs in attention's format, wider than 8 bits: small
// errors in logits would change which experts are chosen.
void Experts::Route(std::int16_t in) {
  const std::int16_t weight = layer_.Parameter("router.weight", kRouterWeight);
  const std::int16_t logits = b_.Temporary("router.logits", e_.tokens * e_.experts);
  const NumberFormat products = b_.formats().products;
  b_.ComputeIn(b_.formats().attention);
  b_.Linear("router", in, weight, layer_.Parameter("router.bias", kRouterBias), logits, e_.tokens,
            e_.experts, layer_.hidden);
  b_.ComputeIn(products);
  Op& op = b_.Add(OpKind::kRoute, "router.choice",
                  {In(logits), Out(e_.probs), Out(e_.weights), Out(e_.chosen), Out(e_.places),
                   Out(e_.sources), Out(e_.counts), Out(e_.balance_counts),
                   In(layer_.Parameter("router.choice.bias", kChoiceBias))});
  SetRouter(op);
}

// All-gathers the counts [pieces, experts] of every member and copies them to the host, which sizes
// the exchanges. The host has to wait for this copy, so it comes once a layer, for all pieces
// together.
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

// All gathers first, then all dispatches, then the pieces one by one: while piece p computes, the
// dispatch of p + 1 and the return of p - 1 are under way.
void Experts::Products(std::int16_t in, bool routed) {
  const std::int64_t hidden = layer_.hidden;
  if (!routed) Route(in);
  const std::int16_t dispatched =
      layer_.quantizes ? b_.Temporary("dispatched.wide", e_.AllRoom() * hidden) : e_.dispatched;
  const std::int16_t sent = BeforeExchange("experts.sent", dispatched, e_.AllSent());
  ForEachPiece([&](std::int64_t p, const std::string& suffix) {
    Gather("experts.gather" + suffix, p, in, InputWeights(), sent);
  });
  if (!routed) ShareCounts();
  ForEachPiece([&](std::int64_t p, const std::string& suffix) {
    Exchange("experts.dispatch" + suffix, p, sent, dispatched, /*is_return=*/false);
  });
  const std::int16_t up = layer_.Parameter("experts.up.weight", kExpertUpWeight);
  const std::int16_t down = layer_.Parameter("experts.down.weight", kExpertDownWeight);
  const std::int16_t made = BeforeExchange("experts.made", e_.out, e_.AllRoom());
  ForEachPiece([&](std::int64_t p, const std::string& suffix) {
    if (layer_.quantizes) {
      CastRows("experts.dispatch.cast" + suffix, Room(dispatched, p, hidden),
               Room(e_.dispatched, p, hidden), p, hidden);
    }
    Grouped(Product::kForward, "experts.up" + suffix, p, Room(e_.dispatched, p, hidden), up,
            Room(e_.up, p, e_.up_width), e_.up_width, hidden);
    Bias("experts.up.bias" + suffix, p, kExpertUpBias, Room(e_.up, p, e_.up_width), e_.up_width, 1);
    Activation(suffix, p);
    Grouped(Product::kForward, "experts.down" + suffix, p, Room(e_.activated, p, e_.ffn_width),
            down, Room(made, p, hidden), hidden, e_.ffn_width);
    // If tp ranks each compute a part of the expert's output, each adds 1 / tp of the bias.
    const int parts = layer_.context.plan.ExpertsSpanTp() ? 1 : layer_.tp;
    Bias("experts.down.bias" + suffix, p, kExpertDownBias, Room(made, p, hidden), hidden,
         1.0 / parts);
    Exchange("experts.return" + suffix, p, made, e_.out, /*is_return=*/true);
  });
}

void AddGemm(BlockBuilder& b, const std::string& name, std::int16_t x, std::int16_t weight,
             std::int16_t y, bool transposed, const OpShape& shape, bool adds) {
  // `transposed`: a forward GEMM, else the gradient of the input.
  const ProductOperand of_x =
      b.ForProduct({name + ".input", shape.inner}, x,
                   transposed ? OperandRole::kInput : OperandRole::kOutputGradient);
  const ProductOperand of_weight = b.ForProduct(
      {name + ".weight", transposed ? shape.inner : shape.cols}, weight, OperandRole::kWeight);
  Op& op = b.Gemm(name, of_x, of_weight, kNoSlot, adds ? InOut(y) : Out(y));
  op.trans_b = transposed;
  op.accumulate = adds;
  op.shape = shape;
}

void AddRows(Layer& layer, const char* name, std::int16_t x, std::int16_t y) {
  Op& op = layer.b.Add(OpKind::kAdd, name, {In(y), In(x), In(kNoSlot), Out(y)});
  op.shape = {.rows = layer.own_rows, .cols = layer.hidden};
}

// If each rank dispatches its own rows, only the shared experts need all of them.
ExpertInputs InputsOfExperts(Layer& layer, const std::string& gather) {
  if (!DealsOwnRows(layer)) {
    const std::int16_t all = layer.Gathered(gather, layer.norm2);
    return {all, all};
  }
  return {layer.norm2, HasSharedExperts(layer) ? layer.Gathered(gather, layer.norm2) : kNoSlot};
}

namespace {

void SharedDown(Layer& layer, std::int16_t into, bool adds) {
  AddGemm(layer.b, "mlp.down.shared", layer.activated, layer.Parameter("down.weight", kDownWeight),
          into, true, {.rows = layer.rows, .cols = layer.hidden, .inner = layer.ffn_width}, adds);
}

// Counts the tokens of each expert if load balancing moves the choice biases (router_bias_rate >
// 0). An evaluation counts none: the next step's biases would follow its tokens too.
void CountChoices(Layer& layer) {
  if (layer.context.model.router_bias_rate == 0 || layer.context.evaluates) return;
  const ExpertTensors& e = layer.experts;
  const std::int16_t loads =
      layer.b.Slot("loads", e.experts, Category::kWorkspace, SlotRole::kLoads);
  Op& op = layer.b.Add(OpKind::kCountChoices, "router.loads", {In(e.chosen), InOut(loads)});
  op.accumulate = true;
  op.shape = {.rows = e.tokens,
              .experts = static_cast<std::int32_t>(e.experts),
              .per_token = static_cast<std::int32_t>(e.per_token)};
}

}  // namespace

void SharedProducts(Layer& layer, std::int16_t in) {
  BlockBuilder& b = layer.b;
  layer.MlpUp(".shared", in, kNoSlot, layer.up, layer.rows);
  layer.Activation(".shared", layer.up, layer.activated, layer.rows);
  if (!layer.context.model.shared_gate) return;
  SharedDown(layer, layer.experts.shared_out, /*adds=*/false);
  const NumberFormat products = b.formats().products;
  b.ComputeIn(b.formats().attention);
  b.Linear("shared.gate", in, layer.Parameter("shared.gate.weight", kSharedGate), kNoSlot,
           layer.experts.shared_scores, layer.rows, 1, layer.hidden);
  b.ComputeIn(products);
}

// Shared experts run after the routed ones and add to their sum, so that one collective serves
// both. If each rank dispatches its own rows, only the shared experts' output is partial and is
// summed alone.
void ExpertsForward(Layer& layer, std::int16_t y) {
  BlockBuilder& b = layer.b;
  Experts experts(layer);
  const ExpertTensors& e = layer.experts;
  const bool own = DealsOwnRows(layer);
  layer.Norm2();
  const ExpertInputs in = InputsOfExperts(layer, "norm2.gather");
  experts.Products(in.experts);
  std::int16_t sum = b.Temporary("experts.sum", e.tokens * layer.hidden);
  experts.Combine("experts.combine", e.out, experts.OutputWeights(), sum);
  CountChoices(layer);
  if (HasSharedExperts(layer)) {
    SharedProducts(layer, in.shared);
    const std::int16_t into = own ? b.Temporary("shared.sum", layer.rows * layer.hidden) : sum;
    if (layer.context.model.shared_gate) {
      Op& op = b.Add(OpKind::kGateForward, "shared.gated",
                     {In(e.shared_out), In(e.shared_scores), own ? Out(into) : InOut(into)});
      op.accumulate = !own;
      op.shape = {.rows = layer.rows, .cols = layer.hidden};
    } else {
      SharedDown(layer, into, !own);
    }
    if (own) AddRows(layer, "experts.add", layer.Summed("mlp.down.shared", into), sum);
  }
  const std::int16_t branch = own ? sum : layer.Summed("experts.combine", sum);
  layer.AddBranch("mlp.residual", layer.residual, branch, kNoSlot, y, layer.branch_mask2);
}

void ExpertsAgain(Layer& layer) {
  layer.Norm2();
  const ExpertInputs in = InputsOfExperts(layer, "norm2.gather");
  Experts(layer).Products(in.experts);
  if (HasSharedExperts(layer)) SharedProducts(layer, in.shared);
}

}  // namespace foretrain
