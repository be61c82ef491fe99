// A mixture of experts while its ops are written down: the steps that forward and backward share.
// Leaves out their order: experts.cc, experts_backward.cc.
#pragma once

#include <cstdint>
#include <string>

#include "sim/program/blocks/layer_ops.h"

namespace foretrain {

// Which of a linear's products.
enum class Product : std::uint8_t { kForward, kInput, kWeight };

class Experts {
 public:
  explicit Experts(Layer& layer) : layer_(layer), b_(layer.b), e_(layer.experts) {}

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
  // Adds each expert's bias of `width`, times `scale`, to its rows; and its gradient. Nothing
  // without one.
  void Bias(const std::string& name, std::int64_t piece, LayerParameter bias, std::int16_t rows,
            std::int64_t width, double scale);
  void BiasGradient(const std::string& name, std::int64_t piece, LayerParameter bias,
                    std::int16_t d_rows, std::int64_t width, bool adds);

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
    // With a softmax a group is as good as its best expert (DeepSeek-AI 2024, s. 2.2.2).
    if (model.expert_groups > 0 && model.router != RouterKind::kSigmoid) shape.group_top = 1;
    return shape;
  }
  // How scores become weights.
  void SetRouter(Op& route) const {
    const ModelSpec& model = layer_.context.model;
    route.softmax_first = model.router == RouterKind::kSoftmaxTopK;
    route.sigmoid = model.router == RouterKind::kSigmoid;
    route.parameter = static_cast<float>(model.expert_scale);
    route.shape = RouteShape();
  }
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
  // Who says how many rows come, where that is not known before.
  std::int16_t CountsOfRows() const { return e_.follows_counts ? e_.all_counts : kNoSlot; }
  // Whose rows are whose.
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
  // As BlockBuilder's ForProduct and Cast, of a row of `width` for each that comes: the cast has
  // room for all, and costs what is expected of it.
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

// y = x w, or with `transposed` x w^T; added to what is there, or written.
void AddGemm(BlockBuilder& b, const std::string& name, std::int16_t x, std::int16_t weight,
             std::int16_t y, bool transposed, const OpShape& shape, bool adds = true);

// y += x, of own rows.
void AddRows(Layer& layer, const char* name, std::int16_t x, std::int16_t y);

inline bool HasSharedExperts(const Layer& layer) { return layer.ffn_width > 0; }
// Experts work on own rows; all rows are for shared experts alone.
inline bool DealsOwnRows(const Layer& layer) { return layer.context.plan.ExpertsSpanTp(); }

// Shared experts' rows: norm2 -> activated, and where the model scales them -> what they make and
// the scores that it is scaled by.
void SharedProducts(Layer& layer, std::int16_t in);

// norm2 for the experts and, where there are any, for the shared ones.
struct ExpertInputs {
  std::int16_t experts = kNoSlot;
  std::int16_t shared = kNoSlot;
};
ExpertInputs InputsOfExperts(Layer& layer, const std::string& gather);

}  // namespace foretrain
