#include "sim/program/blocks/layer/context_attention.h"

#include "sim/program/blocks/layer/dropout_sites.h"

namespace foretrain {

ContextAttention::ContextAttention(const BlockContext& context, BlockBuilder& builder)
    : context_(context),
      b_(builder),
      kind_(context.plan.cp_kind),
      cp_(context.plan.cp),
      tp_(context.plan.tp) {}

std::int64_t ContextAttention::QkvElements() const {
  return Rows() * context_.model.QkvWidthOn(tp_);
}
std::int64_t ContextAttention::OutElements() const {
  return Rows() * context_.model.AttentionWidth() / tp_;
}
std::int64_t ContextAttention::KeyElements() const {
  const ModelSpec& model = context_.model;
  return Rows() * model.KvHeadsOn(tp_) * (model.head_dim + model.ValueDim());
}

OpShape ContextAttention::Shape() const {
  OpShape shape;
  shape.rows = Rows();
  shape.batch = context_.plan.micro_batch;
  shape.sequence = context_.plan.LocalSequence();
  shape.heads = static_cast<std::int32_t>(context_.model.heads / tp_);
  shape.kv_heads = static_cast<std::int32_t>(context_.model.KvHeadsOn(tp_));
  shape.head_dim = static_cast<std::int32_t>(context_.model.head_dim);
  shape.value_dim = static_cast<std::int32_t>(context_.model.value_head_dim);
  shape.cp = cp_;
  return shape;
}

// rows counts queries and inner counts keys; the cost model tells the three kinds apart by
// comparing both with one rank's share.
OpShape ContextAttention::PartShape(const Share& share) const {
  OpShape shape = Shape();
  shape.window = context_.window;
  if (context_.model.positions == PositionKind::kAlibi) {
    shape.alibi_heads = static_cast<std::int32_t>(context_.model.heads);
  }
  shape.inner = shape.rows * (share.keys_all ? cp_ : 1);
  shape.rows *= share.queries_all ? cp_ : 1;
  shape.heads /= share.heads_split;
  shape.kv_heads /= share.heads_split;
  shape.turn = share.turn;
  return shape;
}

void ContextAttention::Bind(const Tensors& tensors, std::optional<Category> saved,
                            Category otherwise) {
  at_ = tensors;
  if (kind_ != ContextParallelKind::kAllToAll) return;
  out_of_heads_ = b_.Slot("attention.of_heads", OutElements(), saved.value_or(otherwise),
                          saved ? SlotRole::kSaved : SlotRole::kTemporary, saved ? kSavedIndex : 0);
}

// All-to-all projects into a temporary, because `qkv` then holds other rows and fewer heads.
std::int16_t ContextAttention::Projection() {
  if (kind_ != ContextParallelKind::kAllToAll) return at_.qkv;
  return b_.Temporary("qkv.own", QkvElements());
}

void ContextAttention::Exchange(std::int16_t projection) {
  if (kind_ != ContextParallelKind::kAllToAll) return;
  const std::int16_t packed = b_.Temporary("qkv.parts", QkvElements());
  HeadParts("attention.qkv.parts", projection, packed, /*qkv=*/true, /*inverse=*/false);
  Communicate(OpKind::kAllToAll, "attention.qkv.exchange", packed, at_.qkv, QkvElements());
}

std::int16_t ContextAttention::StartsOfPart(const std::string& name, const Share& share) {
  if (starts_ == kNoSlot || !share.queries_all) return starts_;
  const std::int16_t all = b_.TemporaryIn(b_.FormatOf(starts_), name + ".starts", Rows() * cp_);
  Communicate(OpKind::kAllGather, name + ".starts.gather", starts_, all, Rows() * cp_);
  return all;
}

// `merges`: combines with the output and lse of earlier parts by their softmax sums, as online
// softmax does.
void ContextAttention::PartForward(const std::string& name, std::int16_t q, std::int16_t kv,
                                   std::int16_t out, const Share& share, bool merges) {
  const auto to = [&](std::int16_t slot) { return merges ? InOut(slot) : Out(slot); };
  const std::int16_t starts = StartsOfPart(name, share);
  Op& op = b_.Add(OpKind::kAttentionPartForward, name, {In(q), In(kv), to(out), to(at_.lse)});
  b_.AlsoReads(starts);
  op.accumulate = merges;
  SetScores(context_.model, op);
  op.bidirectional = !context_.model.causal;
  op.dropout = static_cast<float>(context_.plan.attention_dropout);
  op.dropout_site = kAttentionSite;
  op.shape = PartShape(share);
}

void ContextAttention::PartBackward(const std::string& name, std::int16_t kv, std::int16_t d_out,
                                    const PartGradients& to, const Share& share, bool adds) {
  const bool by_heads = kind_ == ContextParallelKind::kAllToAll;
  const std::int16_t starts = StartsOfPart(name, share);
  Op& op = b_.Add(OpKind::kAttentionPartBackward, name,
                  {In(at_.qkv), In(kv), In(by_heads ? out_of_heads_ : at_.out), In(at_.lse),
                   In(d_out), adds ? InOut(to.q) : Out(to.q), Out(to.kv)});
  b_.AlsoReads(starts);
  op.accumulate = adds;
  SetScores(context_.model, op);
  op.bidirectional = !context_.model.causal;
  op.dropout = static_cast<float>(context_.plan.attention_dropout);
  op.dropout_site = kAttentionSite;
  op.shape = PartShape(share);
}

// Copies the key and value columns of qkv to a tensor of their own, so that only they are sent;
// inverse: back.
void ContextAttention::KeyColumns(const std::string& name, std::int16_t from, std::int16_t to,
                                  bool inverse) {
  Op& op = b_.Add(OpKind::kKeyColumns, name, {In(from), inverse ? InOut(to) : Out(to)});
  op.inverse = inverse;
  op.shape = Shape();
}

// Reorders columns so that the heads of each receiving rank are contiguous; inverse: back. Without
// `qkv` the tensor is attention's output, whose heads have the width of values.
void ContextAttention::HeadParts(const std::string& name, std::int16_t from, std::int16_t to,
                                 bool qkv, bool inverse) {
  Op& op = b_.Add(OpKind::kHeadParts, name, {In(from), Out(to)});
  op.inverse = inverse;
  op.shape = Shape();
  if (qkv) return;
  op.shape.kv_heads = 0;
  op.shape.head_dim = op.shape.ValueDim();
  op.shape.value_dim = 0;
}

void ContextAttention::Communicate(OpKind kind, const std::string& name, std::int16_t in,
                                   std::int16_t out, std::int64_t elements) {
  Op& op = b_.Add(kind, OpClass::kCpComm, name, {In(in), Out(out)});
  op.queue = Queue::kCp;
  op.group = GroupKind::kCp;
  op.shape = {.elements = elements};
}

// Keys and values of all ranks: cp times this rank's, and a temporary of that size.
std::int16_t ContextAttention::GatheredKeys(const std::string& suffix) {
  const std::int16_t own = b_.Temporary("keys.own", KeyElements());
  const std::int16_t all = b_.Temporary("keys", KeyElements() * cp_);
  KeyColumns("attention.keys" + suffix, at_.qkv, own, /*inverse=*/false);
  Communicate(OpKind::kAllGather, "attention.keys.gather" + suffix, own, all, KeyElements() * cp_);
  return all;
}

void ContextAttention::Forward() {
  if (kind_ == ContextParallelKind::kRing) return ForwardRing();
  if (kind_ == ContextParallelKind::kAllToAll) return ForwardAllToAll();
  // A backward has gathered them in Prepare.
  const std::int16_t keys = keys_ != kNoSlot ? keys_ : GatheredKeys("");
  PartForward("attention.core", at_.qkv, keys, at_.out, {.keys_all = true}, /*merges=*/false);
}

// Turn t works on the keys of rank r - t. The rotation for the next turn is issued before this
// turn's attention, so that both overlap; attention merges into the output from the second turn on.
void ContextAttention::ForwardRing() {
  std::int16_t held = b_.Temporary("keys.0", KeyElements());
  KeyColumns("attention.keys", at_.qkv, held, /*inverse=*/false);
  for (int turn = 0; turn < cp_; ++turn) {
    const std::string number = std::to_string(turn);
    const std::int16_t here = held;
    if (turn + 1 < cp_) {
      held = b_.Temporary("keys." + std::to_string(turn + 1), KeyElements());
      Communicate(OpKind::kRotate, "attention.keys.rotate." + number, here, held, KeyElements());
    }
    PartForward("attention.core." + number, at_.qkv, here, at_.out, {.turn = turn}, turn > 0);
  }
}

// Attention of 1 / cp of the heads over the whole sequence, then an all-to-all back to all heads of
// this rank's tokens.
void ContextAttention::ForwardAllToAll() {
  const Share share{.queries_all = true, .keys_all = true, .heads_split = cp_};
  const std::int16_t parts = b_.Temporary("attention.parts", OutElements());
  PartForward("attention.core", at_.qkv, at_.qkv, out_of_heads_, share, /*merges=*/false);
  Communicate(OpKind::kAllToAll, "attention.core.exchange", out_of_heads_, parts, OutElements());
  HeadParts("attention.core.join", parts, at_.out, /*qkv=*/false, /*inverse=*/true);
}

// Gathers keys again before any gradient is there, so that the gather overlaps with earlier ops of
// the backward.
void ContextAttention::Prepare() {
  if (kind_ == ContextParallelKind::kAllGather) keys_ = GatheredKeys("_again");
  if (kind_ != ContextParallelKind::kRing) return;
  keys_ = b_.Temporary("keys.0", KeyElements());
  KeyColumns("attention.keys_again", at_.qkv, keys_, /*inverse=*/false);
}

void ContextAttention::Backward(std::int16_t d_out, std::int16_t d_qkv) {
  if (kind_ == ContextParallelKind::kRing) return BackwardRing(d_out, d_qkv);
  if (kind_ == ContextParallelKind::kAllToAll) return BackwardAllToAll(d_out);
  const std::int16_t d_keys = b_.Temporary("d_keys", KeyElements() * cp_);
  arriving_ = b_.Temporary("d_keys.own", KeyElements());
  PartBackward("attention.core.grad", keys_, d_out, {d_qkv, d_keys}, {.keys_all = true},
               /*adds=*/false);
  Communicate(OpKind::kReduceScatter, "attention.keys.grad.scatter", d_keys, arriving_,
              KeyElements() * cp_);
}

// Gradients travel with their keys, one turn later: while turn t computes, the sum of turns 0 to t
// - 1 arrives from the previous rank and is then added. After cp turns it is on the rank that owns
// the keys.
void ContextAttention::BackwardRing(std::int16_t d_out, std::int16_t d_qkv) {
  std::int16_t held = keys_;
  std::int16_t sum = kNoSlot;
  for (int turn = 0; turn < cp_; ++turn) {
    const std::string number = std::to_string(turn);
    const std::int16_t here = held;
    if (turn + 1 < cp_) {
      held = b_.Temporary("keys." + std::to_string(turn + 1), KeyElements());
      Communicate(OpKind::kRotate, "attention.keys.rotate_again." + number, here, held,
                  KeyElements());
    }
    std::int16_t moved = kNoSlot;
    if (turn > 0) {
      moved = b_.Temporary("d_keys.moved." + number, KeyElements());
      Communicate(OpKind::kRotate, "attention.keys.grad.rotate." + std::to_string(turn - 1), sum,
                  moved, KeyElements());
    }
    const std::int16_t part = b_.Temporary("d_keys." + number, KeyElements());
    PartBackward("attention.core.grad." + number, here, d_out, {d_qkv, part}, {.turn = turn},
                 turn > 0);
    sum = part;
    if (turn == 0) continue;
    Op& add = b_.Add(OpKind::kAdd, "attention.keys.grad.add." + number,
                     {In(moved), In(part), In(kNoSlot), Out(part)});
    add.shape = {.rows = Rows(), .cols = KeyElements() / Rows()};
  }
  arriving_ = b_.Temporary("d_keys.home", KeyElements());
  Communicate(OpKind::kRotate, "attention.keys.grad.rotate." + std::to_string(cp_ - 1), sum,
              arriving_, KeyElements());
}

// The forward's exchanges in reverse: the output's gradient goes to heads, the gradient of qkv
// comes back to tokens.
void ContextAttention::BackwardAllToAll(std::int16_t d_out) {
  const Share share{.queries_all = true, .keys_all = true, .heads_split = cp_};
  const std::int16_t parts = b_.Temporary("d_attention.parts", OutElements());
  const std::int16_t of_heads = b_.Temporary("d_attention.of_heads", OutElements());
  const std::int16_t d_of_heads = b_.Temporary("d_qkv.of_heads", QkvElements());
  arriving_ = b_.Temporary("d_qkv.parts", QkvElements());
  HeadParts("attention.core.grad.parts", d_out, parts, /*qkv=*/false, /*inverse=*/false);
  Communicate(OpKind::kAllToAll, "attention.core.grad.exchange", parts, of_heads, OutElements());
  PartBackward("attention.core.grad", at_.qkv, of_heads, {d_of_heads, d_of_heads}, share,
               /*adds=*/false);
  Communicate(OpKind::kAllToAll, "attention.qkv.grad.exchange", d_of_heads, arriving_,
              QkvElements());
}

void ContextAttention::Finish(std::int16_t d_qkv) {
  if (kind_ == ContextParallelKind::kAllToAll) {
    HeadParts("attention.qkv.grad.join", arriving_, d_qkv, /*qkv=*/true, /*inverse=*/true);
  } else {
    KeyColumns("attention.keys.grad", arriving_, d_qkv, /*inverse=*/true);
  }
}

}  // namespace foretrain
