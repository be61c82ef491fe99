// Multi-token prediction (MTP): layers on the last stage that predict further tokens. They are part
// of the head's block, because they read what the head reads and their gradient is added there
// (DeepSeek-AI 2024b, s. 2.2).
//
//   h' = layer(projection [norm(vector of the next token) | norm(h)]), then norm(h') and the head
//
// The next token of a position is its target, so the head's targets are the ids here, and the
// targets of this loss are shifted by one more. The last position of a sequence has no target. A
// further MTP layer takes the previous one's h' as h and tokens shifted by one more. A position
// without such a token gets a zero vector, which no counted loss reads. The MTP losses together
// weigh predict_weight, each a mean over as many tokens as the head's. The projection is whole on
// every tensor-parallel rank. If the plan recomputes layers, the MTP layer is recomputed within the
// backward.
#include <map>
#include <string>
#include <vector>

#include "sim/program/blocks/ends/head_ops.h"
#include "sim/program/blocks/layer/layer_ops.h"

namespace foretrain {
namespace {

// Indices of saved tensors that one MTP layer takes; kMaxMtpLayers layers must fit below
// kFirstHeld.
constexpr int kSavedEach = int{kMtpSaved} - kMtpNorm + kLayerTensorCount;
static_assert(int{kMtpNorm} + kMaxMtpLayers * kSavedEach <= kFirstHeld);

struct MtpLayer {
  Head& head;
  BlockBuilder& b;
  const BlockContext& context;
  int depth;
  std::string prefix;   // of names: "ahead.", for further layers "ahead.1."
  std::int16_t h, ids;  // the previous layer's output and targets
  std::int64_t own_rows, hidden;
  std::int16_t tokens, token_rstd, hidden_rstd, joined, input;
  Head::Branch branch;

  MtpLayer(Head& of, int number, const Head::Branch& before)
      : head(of),
        b(of.b),
        context(of.context),
        depth(number),
        prefix(number == 0 ? "ahead." : "ahead." + std::to_string(number) + "."),
        h(before.x),
        ids(before.targets),
        own_rows(of.own_rows),
        hidden(of.hidden),
        tokens(Saved("tokens", own_rows * hidden, kMtpTokens)),
        token_rstd(SavedExact("tokens.rstd", own_rows, kMtpTokenRstd)),
        hidden_rstd(SavedExact("hidden.rstd", own_rows, kMtpHiddenRstd)),
        joined(Saved("joined", 2 * own_rows * hidden, kMtpJoined)),
        input(Saved("input", own_rows * hidden, kMtpInput)) {
    branch.suffix = depth == 0 ? ".ahead" : ".ahead." + std::to_string(depth);
    branch.x = Saved("output", own_rows * hidden, kMtpOutput);
    branch.norm = Saved("norm", own_rows * hidden, kMtpNorm);
    branch.rstd = SavedExact("rstd", own_rows, kMtpRstd);
    branch.norm_weight = MtpIndex(depth, kMtpFinalNorm);
    branch.norm_bias = MtpIndex(depth, int{kMtpLayer} + kNorm1Bias);  // an RMSNorm has none
    branch.logits = SavedIndex(kMtpLogits);
    branch.lse = SavedIndex(kMtpLse);
    branch.share = context.model.predict_weight / static_cast<double>(context.model.predict_ahead);
    branch.targets = b.SlotIn(NumberFormat::kFp32, prefix + "targets", of.rows, Category::kStaging,
                              SlotRole::kTemporary);
  }

  HeadTensor SavedIndex(int index) const {
    return static_cast<HeadTensor>(index + depth * kSavedEach);
  }
  std::int16_t Saved(const char* name, std::int64_t elements, HeadTensor index) {
    return head.Saved((prefix + name).c_str(), elements, SavedIndex(index));
  }
  std::int16_t SavedExact(const char* name, std::int64_t elements, HeadTensor index) {
    return head.SavedExact((prefix + name).c_str(), elements, SavedIndex(index));
  }
  std::int16_t Weight(const char* name, int index) {
    return head.Parameter(name, MtpIndex(depth, index), SlotRole::kParameter);
  }
  std::int16_t Gradient(const char* name, int index) {
    return head.Parameter(name, MtpIndex(depth, index), SlotRole::kGradient);
  }
  // Token table, or its gradient, shared by all MTP layers; the head's weight if it is tied.
  std::int16_t Table(SlotRole role) {
    const int index = HasTable() ? int{kMtpTable} : int{kHeadWeight};
    return head.Parameter("tokens", index, role);
  }
  bool HasTable() const { return TiedCopyOf(context.model) == kMtpTable; }
  BlockRequest LayerRequest(bool accumulate, bool accumulate_experts) const {
    BlockRequest request;
    request.kind = MtpKind(context.model);
    request.recompute = context.plan.recompute;
    request.accumulate = accumulate;
    request.accumulate_experts = accumulate_experts;
    return request;
  }

  void ShiftTargets() {
    b.Add(OpKind::kShiftTargets, prefix + "targets", {In(ids), Out(branch.targets)}).shape = {
        .rows = head.rows, .sequence = context.plan.sequence};
  }
  void Norm(const std::string& name, std::int16_t x, int weight, std::int16_t rstd,
            std::int16_t y) {
    Op& op =
        b.Add(OpKind::kNormForward, name,
              {In(x), In(Weight("weight", weight)), In(kNoSlot), Out(y), Out(kNoSlot), Out(rstd)});
    op.rms = true;
    op.Set(Attribute::kEpsilon, context.model.norm_epsilon);
    op.shape = {.rows = own_rows, .cols = hidden};
  }
  std::int16_t NormGradients(const std::string& name, std::int16_t dy, std::int16_t x, int weight,
                             std::int16_t rstd, bool accumulate);
  // Join: whole = [left | right] on this rank's rows. Part: the inverse.
  void Join(std::int16_t left, std::int16_t right, std::int16_t whole);
  void Part(std::int16_t whole, std::int16_t left, std::int16_t right);
  void Splice(const BlockBuilder& part, std::int16_t d_output, std::int16_t d_input,
              std::map<std::int32_t, std::int16_t>* rebuilt);
};

void MtpLayer::Join(std::int16_t left, std::int16_t right, std::int16_t whole) {
  Op& op = b.Add(OpKind::kSplitColumns, prefix + "join", {In(left), In(right), Out(whole)});
  op.inverse = true;
  op.shape = {.rows = own_rows, .cols = hidden, .inner = hidden};
}

void MtpLayer::Part(std::int16_t whole, std::int16_t left, std::int16_t right) {
  b.Add(OpKind::kSplitColumns, prefix + "join.grad", {In(whole), Out(left), Out(right)}).shape = {
      .rows = own_rows, .cols = hidden, .inner = hidden};
}

// The input gradient in the input half, the weight gradient in the weight half; returns dx.
std::int16_t MtpLayer::NormGradients(const std::string& name, std::int16_t dy, std::int16_t x,
                                     int weight, std::int16_t rstd, bool accumulate) {
  const OpShape shape{.rows = own_rows, .cols = hidden};
  const std::int16_t dx = b.Temporary("d_" + name, own_rows * hidden);
  b.Half(Pass::kBackwardInput);
  Op& of_input = b.Add(
      OpKind::kNormBackwardInput, name + ".input_grad",
      {In(dy), In(x), In(Weight("weight", weight)), In(kNoSlot), In(rstd), In(kNoSlot), Out(dx)});
  of_input.rms = true;
  of_input.shape = shape;
  b.Half(Pass::kBackwardWeight);
  const std::int16_t grad = Gradient("d_weight", weight);
  Op& op = b.Add(
      OpKind::kNormBackwardWeight, name + ".weight_grad",
      {In(dy), In(x), In(kNoSlot), In(rstd), accumulate ? InOut(grad) : Out(grad), Out(kNoSlot)});
  op.rms = true;
  op.accumulate = accumulate;
  op.shape = shape;
  return dx;
}

// Copies a layer's block into the head's: its input, output and gradients become this block's
// slots, and parameters and saved tensors are renumbered. `rebuilt`: recomputed tensors by saved
// index; null if the forward saved them.
void MtpLayer::Splice(const BlockBuilder& part, std::int16_t d_output, std::int16_t d_input,
                      std::map<std::int32_t, std::int16_t>* rebuilt) {
  b.Splice(part, prefix, [&](TensorSlot& slot) -> std::int16_t {
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
        slot.index += MtpIndex(depth, kMtpLayer);
        return kNoSlot;
      case SlotRole::kLoads:
        slot.index = depth;
        return kNoSlot;
      case SlotRole::kSaved:
        break;
      default:
        return kNoSlot;
    }
    if (rebuilt == nullptr) {
      slot.index += SavedIndex(kMtpSaved);
      return kNoSlot;
    }
    const auto [found, is_new] = rebuilt->try_emplace(slot.index, kNoSlot);
    if (is_new) {
      TensorSlot own = slot;
      own.name = prefix + slot.name;
      own.role = SlotRole::kTemporary;
      own.category = Category::kRecompute;
      own.index = 0;
      found->second = b.Add(std::move(own));
    }
    return found->second;
  });
}

}  // namespace

namespace {

// All MTP layers, each reading the previous one's output. Forward and backward declare the same
// slots here.
std::vector<MtpLayer> MtpLayers(Head& head) {
  std::vector<MtpLayer> layers;
  for (int depth = 0; depth < head.context.model.predict_ahead; ++depth) {
    layers.emplace_back(head, depth, depth == 0 ? head.next : layers.back().branch);
  }
  return layers;
}

// Adds one MTP layer's forward and its share of the loss.
void Forward(MtpLayer& a, std::int16_t weight, std::int16_t loss) {
  BlockBuilder& b = a.b;
  const std::int64_t elements = a.own_rows * a.hidden;
  const std::int16_t table = a.HasTable() ? a.Table(SlotRole::kParameter) : weight;
  TokensForward(b, a.context, a.prefix + "embedding", {a.ids, table, kNoSlot, a.tokens});
  const std::int16_t token = b.Temporary(a.prefix + "tokens.normed", elements);
  const std::int16_t hidden = b.Temporary(a.prefix + "hidden.normed", elements);
  a.Norm(a.prefix + "tokens.norm", a.tokens, kMtpTokenNorm, a.token_rstd, token);
  a.Norm(a.prefix + "hidden.norm", a.h, kMtpHiddenNorm, a.hidden_rstd, hidden);
  a.Join(token, hidden, a.joined);
  b.Linear(a.prefix + "projection", a.joined, a.Weight("projection", kMtpProjection), kNoSlot,
           a.input, a.own_rows, a.hidden, 2 * a.hidden);
  a.Splice(WriteLayerForward(a.context, a.LayerRequest(false, false)), kNoSlot, kNoSlot, nullptr);
  a.head.NormForward(a.branch);
  a.ShiftTargets();
  a.head.WholeForward(a.branch, weight, loss, /*adds_loss=*/true);
}

// Adds one MTP layer's backward. `through`: gradient of its output that the next MTP layer sends,
// or kNoSlot. Returns the gradient of the h that it read. The last MTP layer runs first and
// overwrites the shared gradients, unless they accumulate over micro-batches.
std::int16_t Backward(MtpLayer& a, std::int16_t weight, const BlockRequest& request,
                      std::int16_t through) {
  Head& head = a.head;
  BlockBuilder& b = a.b;
  const std::int64_t elements = a.own_rows * a.hidden;
  const bool first = through == kNoSlot;  // first writer of the head's and the table's gradients
  const std::int16_t d_output = b.Temporary(a.prefix + "d_output", elements);
  const std::int16_t d_input = b.Temporary(a.prefix + "d_input", elements);
  a.branch.after = !first;
  head.LogitsBackward(a.branch, weight, request.accumulate, [&](std::int16_t d_norm) {
    head.NormBackward(a.branch, d_norm, through, d_output, request.accumulate);
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
  const std::int16_t d_joined = b.Temporary(a.prefix + "d_joined", 2 * elements);
  const std::int16_t d_token = b.Temporary(a.prefix + "d_tokens.normed", elements);
  const std::int16_t d_hidden = b.Temporary(a.prefix + "d_hidden.normed", elements);
  b.LinearInputGradient(a.prefix + "projection.input_grad", d_input,
                        a.Weight("projection", kMtpProjection), d_joined, a.own_rows, a.hidden,
                        2 * a.hidden);
  a.Part(d_joined, d_token, d_hidden);
  b.Half(Pass::kBackwardWeight);
  b.LinearWeightGradient(a.prefix + "projection", d_input, a.joined,
                         a.Gradient("d_projection", kMtpProjection), kNoSlot, a.own_rows, a.hidden,
                         2 * a.hidden, request.accumulate);
  const std::int16_t to_before = a.NormGradients(a.prefix + "hidden.norm", d_hidden, a.h,
                                                 kMtpHiddenNorm, a.hidden_rstd, request.accumulate);
  const std::int16_t d_tokens = a.NormGradients(a.prefix + "tokens.norm", d_token, a.tokens,
                                                kMtpTokenNorm, a.token_rstd, request.accumulate);
  b.Half(Pass::kBackwardWeight);
  TokensBackward(b, a.context, a.prefix + "embedding",
                 {a.ids, a.Table(SlotRole::kGradient), kNoSlot, d_tokens},
                 !a.HasTable() || request.accumulate || !first);
  return to_before;
}

}  // namespace

void MtpForward(Head& head, std::int16_t weight, std::int16_t loss) {
  for (MtpLayer& layer : MtpLayers(head)) Forward(layer, weight, loss);
}

// In reverse order, because each layer's output gradient includes what the next one sends back.
std::int16_t MtpBackward(Head& head, std::int16_t weight, const BlockRequest& request) {
  std::vector<MtpLayer> layers = MtpLayers(head);
  head.b.Half(Pass::kBackwardInput);
  for (MtpLayer& layer : layers) layer.ShiftTargets();
  std::int16_t through = kNoSlot;
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    through = Backward(*layer, weight, request, through);
  }
  return through;
}

}  // namespace foretrain
