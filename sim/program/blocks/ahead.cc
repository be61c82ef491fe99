// The layer that predicts one token further ahead: on the last stage, within the head's block,
// because it reads what the head does and its gradient is added there (DeepSeek-AI 2024b, s. 2.2).
//   h' = layer(projection [norm(vector of the next token) | norm(h)]), loss of norm(h') and the
//   head
// The token behind a position's is its target, so that targets are the ids here, and those of this
// loss lie one further; a sequence's last position has none. The loss's share is predict_weight of
// the mean over as many tokens as the head's. The projection is whole on every tensor-parallel
// rank. A plan that recomputes layers makes this one again, too, within the backward.
#include <map>

#include "sim/program/blocks/head_ops.h"
#include "sim/program/blocks/layer_ops.h"

namespace foretrain {
namespace {

constexpr const char* kPrefix = "ahead.";
static_assert(int{kAheadSaved} + kLayerTensorCount <= kFirstHeld);

struct Ahead {
  Head& head;
  BlockBuilder& b;
  const BlockContext& context;
  std::int64_t own_rows, hidden;
  std::int16_t tokens, token_rstd, hidden_rstd, joined, input;
  Head::Branch branch;

  explicit Ahead(Head& of)
      : head(of),
        b(of.b),
        context(of.context),
        own_rows(of.own_rows),
        hidden(of.hidden),
        tokens(of.Saved("ahead.tokens", own_rows * hidden, kAheadTokens)),
        token_rstd(of.SavedExact("ahead.tokens.rstd", own_rows, kAheadTokenRstd)),
        hidden_rstd(of.SavedExact("ahead.hidden.rstd", own_rows, kAheadHiddenRstd)),
        joined(of.Saved("ahead.joined", 2 * own_rows * hidden, kAheadJoined)),
        input(of.Saved("ahead.input", own_rows * hidden, kAheadInput)) {
    branch.suffix = ".ahead";
    branch.x = of.Saved("ahead.output", own_rows * hidden, kAheadOutput);
    branch.norm = of.Saved("ahead.norm", own_rows * hidden, kAheadNorm);
    branch.rstd = of.SavedExact("ahead.rstd", own_rows, kAheadRstd);
    branch.norm_weight = kAheadFinalNorm;
    branch.norm_bias = int{kAheadLayer} + kNorm1Bias;  // an RMSNorm has none
    branch.logits = kAheadLogits;
    branch.lse = kAheadLse;
    branch.share = context.model.predict_weight;
    branch.targets = b.SlotIn(NumberFormat::kFp32, "targets.ahead", of.rows, Category::kStaging,
                              SlotRole::kTemporary);
  }

  std::int16_t Weight(const char* name, int index) {
    return head.Parameter(name, index, SlotRole::kParameter);
  }
  std::int16_t Gradient(const char* name, int index) {
    return head.Parameter(name, index, SlotRole::kGradient);
  }
  bool HasTable() const { return TwinOf(context.model) == kAheadTable; }
  BlockRequest LayerRequest(bool accumulate, bool accumulate_experts) const {
    BlockRequest request;
    request.kind = AheadKind(context.model);
    request.recompute = context.plan.recompute;
    request.accumulate = accumulate;
    request.accumulate_experts = accumulate_experts;
    return request;
  }

  void ShiftTargets() {
    b.Add(OpKind::kShiftTargets, OpClass::kMemoryBound, "ahead.targets",
          {In(head.next.targets), Out(branch.targets)})
        .shape = {.rows = head.rows, .sequence = context.plan.sequence};
  }
  void Norm(const std::string& name, std::int16_t x, int weight, std::int16_t rstd,
            std::int16_t y) {
    Op& op =
        b.Add(OpKind::kNormForward, OpClass::kMemoryBound, name,
              {In(x), In(Weight("weight", weight)), In(kNoSlot), Out(y), Out(kNoSlot), Out(rstd)});
    op.rms = true;
    op.parameter = static_cast<float>(context.model.norm_epsilon);
    op.shape = {.rows = own_rows, .cols = hidden};
  }
  std::int16_t NormGradients(const std::string& name, std::int16_t dy, std::int16_t x, int weight,
                             std::int16_t rstd, bool accumulate);
  // [left | right] on own rows, and back.
  void Join(std::int16_t left, std::int16_t right, std::int16_t whole);
  void Part(std::int16_t whole, std::int16_t left, std::int16_t right);
  void Splice(const BlockBuilder& part, std::int16_t d_output, std::int16_t d_input,
              std::map<std::int32_t, std::int16_t>* rebuilt);
};

void Ahead::Join(std::int16_t left, std::int16_t right, std::int16_t whole) {
  Op& op = b.Add(OpKind::kSplitColumns, OpClass::kMemoryBound, "ahead.join",
                 {In(left), In(right), Out(whole)});
  op.inverse = true;
  op.shape = {.rows = own_rows, .cols = hidden, .inner = hidden};
}

void Ahead::Part(std::int16_t whole, std::int16_t left, std::int16_t right) {
  b.Add(OpKind::kSplitColumns, OpClass::kMemoryBound, "ahead.join.grad",
        {In(whole), Out(left), Out(right)})
      .shape = {.rows = own_rows, .cols = hidden, .inner = hidden};
}

std::int16_t Ahead::NormGradients(const std::string& name, std::int16_t dy, std::int16_t x,
                                  int weight, std::int16_t rstd, bool accumulate) {
  const OpShape shape{.rows = own_rows, .cols = hidden};
  const std::int16_t dx = b.Temporary("d_" + name, own_rows * hidden);
  b.Half(Pass::kBackwardInput);
  Op& of_input = b.Add(
      OpKind::kNormBackwardInput, OpClass::kMemoryBound, name + ".input_grad",
      {In(dy), In(x), In(Weight("weight", weight)), In(kNoSlot), In(rstd), In(kNoSlot), Out(dx)});
  of_input.rms = true;
  of_input.shape = shape;
  b.Half(Pass::kBackwardWeight);
  const std::int16_t grad = Gradient("d_weight", weight);
  Op& op = b.Add(
      OpKind::kNormBackwardWeight, OpClass::kMemoryBound, name + ".weight_grad",
      {In(dy), In(x), In(kNoSlot), In(rstd), accumulate ? InOut(grad) : Out(grad), Out(kNoSlot)});
  op.rms = true;
  op.accumulate = accumulate;
  op.shape = shape;
  return dx;
}

// The layer's tensors and parameters become the head block's. `rebuilt`: where what a recomputation
// makes lies, by its number, or none where it was saved.
void Ahead::Splice(const BlockBuilder& part, std::int16_t d_output, std::int16_t d_input,
                   std::map<std::int32_t, std::int16_t>* rebuilt) {
  b.Splice(part, kPrefix, [&](TensorSlot& slot) -> std::int16_t {
    switch (slot.role) {
      case SlotRole::kInput:
        return input;
      case SlotRole::kOutput:
        return branch.x;
      case SlotRole::kOutputGradient:
        return d_output;
      case SlotRole::kInputGradient:
        return d_input;
      case SlotRole::kParameter:
      case SlotRole::kGradient:
        slot.index += kAheadLayer;
        return kNoSlot;
      case SlotRole::kSaved:
        break;
      default:
        return kNoSlot;
    }
    if (rebuilt == nullptr) {
      slot.index += kAheadSaved;
      return kNoSlot;
    }
    const auto [found, is_new] = rebuilt->try_emplace(slot.index, kNoSlot);
    if (is_new) {
      TensorSlot own = slot;
      own.name = kPrefix + slot.name;
      own.role = SlotRole::kTemporary;
      own.category = Category::kRecompute;
      own.index = 0;
      found->second = b.Add(std::move(own));
    }
    return found->second;
  });
}

}  // namespace

void AheadForward(Head& head, std::int16_t weight, std::int16_t loss) {
  Ahead a(head);
  BlockBuilder& b = a.b;
  const std::int64_t elements = a.own_rows * a.hidden;
  const std::int16_t table = a.HasTable() ? a.Weight("tokens", kAheadTable) : weight;
  TokensForward(b, a.context, "ahead.embedding", {head.next.targets, table, kNoSlot, a.tokens});
  const std::int16_t token = b.Temporary("ahead.tokens.normed", elements);
  const std::int16_t hidden = b.Temporary("ahead.hidden.normed", elements);
  a.Norm("ahead.tokens.norm", a.tokens, kAheadTokenNorm, a.token_rstd, token);
  a.Norm("ahead.hidden.norm", head.next.x, kAheadHiddenNorm, a.hidden_rstd, hidden);
  a.Join(token, hidden, a.joined);
  b.Linear("ahead.projection", a.joined, a.Weight("projection", kAheadProjection), kNoSlot, a.input,
           a.own_rows, a.hidden, 2 * a.hidden);
  a.Splice(WriteLayerForward(a.context, a.LayerRequest(false, false)), kNoSlot, kNoSlot, nullptr);
  head.NormForward(a.branch);
  a.ShiftTargets();
  head.WholeForward(a.branch, weight, loss, /*adds_loss=*/true);
}

std::int16_t AheadBackward(Head& head, std::int16_t weight, const BlockRequest& request) {
  Ahead a(head);
  BlockBuilder& b = a.b;
  const std::int64_t elements = a.own_rows * a.hidden;
  const std::int16_t d_output = b.Temporary("ahead.d_output", elements);
  const std::int16_t d_input = b.Temporary("ahead.d_input", elements);
  b.Half(Pass::kBackwardInput);
  a.ShiftTargets();
  head.LogitsBackward(a.branch, weight, request.accumulate, [&](std::int16_t d_norm) {
    head.NormBackward(a.branch, d_norm, kNoSlot, d_output, request.accumulate);
  });
  BlockRequest layer = a.LayerRequest(request.accumulate, request.accumulate_experts);
  std::map<std::int32_t, std::int16_t> rebuilt;
  const bool again = layer.recompute == RecomputeKind::kFull;
  if (again) {
    BlockBuilder recompute = WriteLayerRecompute(a.context, layer);
    recompute.AllIn(Pass::kBackwardInput);
    a.Splice(recompute, kNoSlot, kNoSlot, &rebuilt);
  }
  layer.pass = Pass::kBackward;
  a.Splice(WriteLayerBackward(a.context, layer), d_output, d_input, again ? &rebuilt : nullptr);
  b.Half(Pass::kBackwardInput);
  const std::int16_t d_joined = b.Temporary("ahead.d_joined", 2 * elements);
  const std::int16_t d_token = b.Temporary("ahead.d_tokens.normed", elements);
  const std::int16_t d_hidden = b.Temporary("ahead.d_hidden.normed", elements);
  b.LinearInputGradient("ahead.projection.input_grad", d_input,
                        a.Weight("projection", kAheadProjection), d_joined, a.own_rows, a.hidden,
                        2 * a.hidden);
  a.Part(d_joined, d_token, d_hidden);
  b.Half(Pass::kBackwardWeight);
  b.LinearWeightGradient("ahead.projection", d_input, a.joined,
                         a.Gradient("d_projection", kAheadProjection), kNoSlot, a.own_rows,
                         a.hidden, 2 * a.hidden, request.accumulate);
  const std::int16_t through = a.NormGradients("ahead.hidden.norm", d_hidden, head.next.x,
                                               kAheadHiddenNorm, a.hidden_rstd, request.accumulate);
  const std::int16_t d_tokens = a.NormGradients("ahead.tokens.norm", d_token, a.tokens,
                                                kAheadTokenNorm, a.token_rstd, request.accumulate);
  b.Half(Pass::kBackwardWeight);
  const std::int16_t d_table =
      a.HasTable() ? a.Gradient("d_tokens", kAheadTable) : a.Gradient("d_weight", kHeadWeight);
  TokensBackward(b, a.context, "ahead.embedding", {head.next.targets, d_table, kNoSlot, d_tokens},
                 !a.HasTable() || request.accumulate);
  return through;
}

}  // namespace foretrain
