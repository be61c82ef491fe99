// Experts, a mixture of experts under construction: the steps that forward and backward share.
// Their order is in experts.cc and experts_backward.cc.
#pragma once

#include <cstdint>
#include <string>

#include "sim/program/blocks/layer/layer_ops.h"

namespace foretrain {

// The three GEMMs of a linear: forward, input gradient, weight gradient.
enum class Product : std::uint8_t { kForward, kInput, kWeight };

class Experts {
 public:
  explicit Experts(Layer& layer) : layer_(layer), b_(layer.b), e_(layer.experts) {}

  // Calls `run` with each piece's number and the suffix of its ops' names.
  template <class Run>
  void ForEachPiece(const Run& run) const {
    for (std::int64_t p = 0; p < e_.pieces; ++p)
      run(p, e_.pieces > 1 ? "." + std::to_string(p) : "");
  }
  // View of a piece's rows in a tensor of `width`: the rows that this rank sends, or those that its
  // experts hold.
  std::int16_t Sent(std::int16_t tensor, std::int64_t piece, std::int64_t width) {
    return Part(tensor, e_.Sent(piece), width);
  }
  std::int16_t Room(std::int16_t tensor, std::int64_t piece, std::int64_t width) {
    return Part(tensor, e_.Room(piece), width);
  }

  // A linear of each expert from width `in` to `out`, on one piece of the experts' rows. Operands
  // (a, b, c) are (x, w, y), (dy, w, dx) or (dy, x, dw).
  void Grouped(Product product, const std::string& name, std::int64_t piece, std::int16_t a,
               std::int16_t b, std::int16_t c, std::int64_t out, std::int64_t in,
               bool adds = false);
  void Activation(const std::string& suffix, std::int64_t piece);
  // Adds each expert's bias of `width`, times `scale`, to its rows; and the bias's gradient.
  // Nothing if the model has no expert bias.
  void Bias(const std::string& name, std::int64_t piece, LayerParameter bias, std::int16_t rows,
            std::int64_t width, double scale);
  void BiasGradient(const std::string& name, std::int64_t piece, LayerParameter bias,
                    std::int16_t d_rows, std::int64_t width, bool adds);

  // Gather copies tokens' rows to experts' rows, times `weights` unless kNoSlot. Combine sums each
  // token's expert rows, weighted. Dots gives the gradient of those weights.
  void Gather(const std::string& name, std::int64_t piece, std::int16_t x, std::int16_t weights,
              std::int16_t out) {
    Op& op = b_.Add(
        OpKind::kExpertGather, name,
        {In(x), In(Sent(e_.sources, piece, 1)), In(weights), Out(Sent(out, piece, layer_.hidden))});
    op.shape = RowsShape(e_.Sent(piece).count, e_.tokens);
  }
  void Combine(const std::string& name, std::int16_t x, std::int16_t weights, std::int16_t out) {
    Op& op = b_.Add(OpKind::kExpertCombine, name, {In(x), In(e_.places), In(weights), Out(out)});
    op.shape = RowsShape(e_.tokens, e_.AllSent());
  }
  void Dots(const std::string& name, std::int16_t dy, std::int16_t x, std::int16_t out) {
    Op& op = b_.Add(OpKind::kExpertDots, name, {In(dy), In(x), In(e_.places), Out(out)});
    op.shape = RowsShape(e_.tokens, e_.AllSent());
  }

  // Expert parallelism: Exchange sends rows to the members that hold their experts and, with
  // `is_return`, back. BeforeExchange returns the tensor to fill first: a temporary of `rows` rows,
  // or `made` itself if all experts are local.
  std::int16_t BeforeExchange(const std::string& name, std::int16_t made, std::int64_t rows) {
    return Exchanges() ? b_.Temporary(name, rows * layer_.hidden) : made;
  }
  void Exchange(const std::string& name, std::int64_t piece, std::int16_t in, std::int16_t out,
                bool is_return);
  bool Exchanges() const { return e_.members > 1; }
  // The weights that multiply the experts' inputs, and those that multiply their outputs; kNoSlot
  // for one of them.
  std::int16_t InputWeights() const {
    return layer_.context.model.weigh_expert_inputs ? e_.weights : kNoSlot;
  }
  std::int16_t OutputWeights() const {
    return layer_.context.model.weigh_expert_inputs ? kNoSlot : e_.weights;
  }

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
    // With a softmax router a group's score is that of its best expert (DeepSeek-AI 2024, s.
    // 2.2.2).
    if (model.expert_groups > 0 && model.router != RouterKind::kSigmoid) shape.group_top = 1;
    return shape;
  }
  // Sets how the router turns scores into weights.
  void SetRouter(Op& route) const {
    const ModelSpec& model = layer_.context.model;
    route.softmax_first = model.router == RouterKind::kSoftmaxTopK;
    route.undivided = model.router == RouterKind::kTopKSigmoid;
    route.sigmoid = model.router == RouterKind::kSigmoid || route.undivided;
    route.Set(Attribute::kWeightFactor, model.expert_scale);
    route.shape = RouteShape();
  }
  // Makes the op's row counts come from the counts of `piece` at run time; the counts are its last
  // operand.
  void FollowCounts(std::int64_t piece, OpShape& shape) const {
    if (!e_.follows_counts) return;
    shape.members = static_cast<std::int32_t>(e_.members);
    shape.all_experts = static_cast<std::int32_t>(e_.experts);
    shape.pieces = static_cast<std::int32_t>(e_.pieces);
    shape.piece = static_cast<std::int32_t>(piece);
  }

  // From this rank's tokens to the experts' outputs, one row for each (token, expert) pair.
  // `routed`: the router's choice and the exchanged counts were saved, so they are not made again.
  void Products(std::int16_t in, bool routed = false);

 private:
  // Tensor that gives the number of arriving rows; kNoSlot if it is known when compiling.
  std::int16_t CountsOfRows() const { return e_.follows_counts ? e_.all_counts : kNoSlot; }
  // Tensor that assigns rows to experts; kNoSlot with a capacity, where each expert has a fixed
  // range.
  std::int16_t Counts() const {
    return e_.capacity > 0 ? kNoSlot : e_.follows_counts ? e_.all_counts : e_.counts;
  }
  OpShape BiasShape(std::int64_t piece, std::int64_t width) const;
  std::int16_t Part(std::int16_t tensor, RowRange range, std::int64_t width) {
    if (e_.pieces == 1 || tensor == kNoSlot) return tensor;
    return b_.View("piece", tensor, range.first * width, range.count * width);
  }
  OpShape RowsShape(std::int64_t rows, std::int64_t others) const {
    OpShape shape{.rows = rows, .cols = layer_.hidden, .elements = others};
    shape.per_token = static_cast<std::int32_t>(e_.per_token);
    return shape;
  }
  // BlockBuilder's ForProduct and Cast for arriving rows of `width`: the cast's buffer holds the
  // bound, and its cost is that of the expected rows.
  ProductOperand RowsForProduct(const std::string& name, std::int16_t rows, std::int64_t piece,
                                std::int64_t width, OperandRole role);
  void CastRows(const std::string& name, std::int16_t from, std::int16_t to, std::int64_t piece,
                std::int64_t width);
  void ExpectRows(Op& cast, std::int64_t piece, std::int64_t width) const;
  void Route(std::int16_t in);
  void ShareCounts();

  Layer& layer_;
  BlockBuilder& b_;
  const ExpertTensors& e_;
};

// y = x w, or y = x w^T if `transposed`; added to y if `adds`.
void AddGemm(BlockBuilder& b, const std::string& name, std::int16_t x, std::int16_t weight,
             std::int16_t y, bool transposed, const OpShape& shape, bool adds = true);

// y += x on this rank's rows.
void AddRows(Layer& layer, const char* name, std::int16_t x, std::int16_t y);

inline bool HasSharedExperts(const Layer& layer) { return layer.ffn_width > 0; }
// True if each rank dispatches its own rows to whole experts; then only shared experts read all
// rows.
inline bool DealsOwnRows(const Layer& layer) { return layer.context.plan.ExpertsSpanTp(); }

// Shared experts up to the activation and, if the model scales their output, that output and its
// scores.
void SharedProducts(Layer& layer, std::int16_t in);

// Inputs of the routed and the shared experts; kNoSlot if there are no shared ones.
struct ExpertInputs {
  std::int16_t experts = kNoSlot;
  std::int16_t shared = kNoSlot;
};
ExpertInputs InputsOfExperts(Layer& layer, const std::string& gather);

}  // namespace foretrain
