// Multi-head latent attention in training (DeepSeek-AI 2024, s. 2.1). Keys and values pass through
// a narrow vector, and queries through another or directly; both vectors are normalized, and all
// heads share one rotated key:
//
//   norm1 -> q_down -> norm -> q_up -------------------------> rope --+
//   norm1 -> kv_down -> split -> norm -> kv_up -----------------------+-> qkv
//                           +--> rotated key -----------------> rope --+
//
// Tensor parallelism splits heads, and with them the up projections; down projections are whole on
// every rank. With sequence parallelism they work on a rank's own rows, and the narrow vectors are
// gathered instead of norm1. Gradients of tensors that all heads share are summed over tp.
#include "sim/program/blocks/layer/layer_ops.h"

namespace foretrain {

void Layer::MakeLatentTensors(const TensorMaker& make) {
  const ModelSpec& model = context.model;
  if (!model.IsLatent()) return;
  const NumberFormat activation = b.formats().activations, exact = NumberFormat::kFp32;
  const std::int64_t queries = own_rows * model.query_rank, keys = own_rows * model.key_value_rank;
  query_latent = {model.query_rank, make(activation, "q.latent", queries, kQueryLatent),
                  make(activation, "q.normed", queries, kQueryNormed),
                  make(exact, "q.rstd", HasLatentQueries() ? own_rows : 0, kQueryRstd)};
  key_latent = {model.key_value_rank, make(activation, "kv.latent", keys, kKeyLatent),
                make(activation, "kv.normed", keys, kKeyNormed),
                make(exact, "kv.rstd", own_rows, kKeyRstd)};
}

// Gathering after the down projection moves `width` numbers a row, fewer than the hidden size.
std::int16_t Layer::GatheredOf(const std::string& name, std::int16_t own, std::int64_t width) {
  return split_rows ? b.TpGathered(name, own, rows * width) : own;
}

std::int16_t Layer::SummedOf(const std::string& name, std::int16_t whole, std::int64_t width) {
  if (tp == 1) return whole;
  if (!split_rows) {
    b.TpAllReduce(name, whole, rows * width);
    return whole;
  }
  const std::int16_t own = b.Temporary(name + ".own", own_rows * width);
  b.TpReduceScatter(name, whole, own, rows * width);
  return own;
}

// Sizes of kLatentHeads, which packs queries, keys and values into rows [q | k | v].
OpShape Layer::LatentShape() const {
  const ModelSpec& model = context.model;
  return {.rows = rows,
          .heads = static_cast<std::int32_t>(model.heads / tp),
          .head_dim = static_cast<std::int32_t>(model.head_dim),
          .rotary = static_cast<std::int32_t>(model.rope_head_dim),
          .value_dim = static_cast<std::int32_t>(model.value_head_dim)};
}

// Rotates the last rope_head_dim elements of each head; the shared key is one head of just that
// width.
void Layer::LatentRope(const char* name, std::int16_t tensor, std::int64_t heads,
                       std::int64_t head_dim, bool inverse) {
  const std::int64_t turned = context.model.rope_head_dim;
  const std::int16_t documents = DocumentStarts();
  Op& op = b.Add(OpKind::kRope, name, {InOut(tensor)});
  b.AlsoReads(documents);
  op.inverse = inverse;
  op.Set(Attribute::kTheta, context.model.rope_theta);
  op.stretch = StretchOf(context.model);
  op.shape = {.rows = rows,
              .batch = context.plan.micro_batch,
              .sequence = context.plan.LocalSequence(),
              .heads = static_cast<std::int32_t>(heads),
              .head_dim = static_cast<std::int32_t>(head_dim),
              .cp = SharesSequence() ? context.plan.cp : 0};
  if (turned == head_dim) return;
  op.shape.rotary = static_cast<std::int32_t>(turned);
  op.shape.rotary_first = static_cast<std::int32_t>(head_dim - turned);
}

void Layer::LatentNorm(const Latent& latent) {
  const std::string name = std::string(LatentName(latent)) + "_down.norm";
  const std::int16_t weight = Parameter((name + ".weight").c_str(), NormOf(latent));
  Op& op = b.Add(
      OpKind::kNormForward, name,
      {In(latent.in), In(weight), In(kNoSlot), Out(latent.normed), Out(kNoSlot), Out(latent.rstd)});
  op.rms = true;
  op.Set(Attribute::kEpsilon, context.model.norm_epsilon);
  op.shape = {.rows = own_rows, .cols = latent.width};
}

// From norm1 on own rows to packed queries, keys and values of all rows.
void Layer::LatentQkv(std::int16_t out) {
  const ModelSpec& model = context.model;
  const std::int64_t rank = model.key_value_rank, turned = model.rope_head_dim;
  LatentInputs from;
  if (HasLatentQueries()) {
    b.Linear("attention.q_down", norm1, Parameter("q_down.weight", kQueryDown), kNoSlot,
             query_latent.in, own_rows, model.query_rank, hidden);
    LatentNorm(query_latent);
    from.queries = GatheredOf("attention.q_down.gather", query_latent.normed, model.query_rank);
  } else {
    from.queries = whole_norm1 = Gathered("norm1.gather", norm1);
  }
  const std::int16_t down = b.Temporary("kv_down", own_rows * (rank + turned));
  from.own_turned =
      turned_key != kNoSlot ? turned_key : b.Temporary("turned_key.own", own_rows * turned);
  b.Linear("attention.kv_down", norm1, Parameter("kv_down.weight", kKeyDown), kNoSlot, down,
           own_rows, rank + turned, hidden);
  b.Add(OpKind::kSplitColumns, "attention.kv_down.split",
        {In(down), Out(key_latent.in), Out(from.own_turned)})
      .shape = {.rows = own_rows, .cols = rank, .inner = turned};
  LatentNorm(key_latent);
  from.keys = GatheredOf("attention.kv_down.gather", key_latent.normed, rank);
  LatentUp(from, out);
}

// Rope works in place. So the saved key is already rotated unless rows are split, where a gathered
// copy is rotated.
void Layer::LatentUp(const LatentInputs& from, std::int16_t out) {
  const ModelSpec& model = context.model;
  const std::int64_t rank = model.key_value_rank, turned = model.rope_head_dim;
  const std::int16_t key = GatheredOf("attention.turned_key.gather", from.own_turned, turned);
  const std::int16_t q = b.Temporary("q", rows * QueryWidth());
  const std::int16_t kv = b.Temporary("kv", rows * KeyUpWidth());
  b.Linear("attention.q_up", from.queries, Parameter("q_up.weight", kQueryUp), kNoSlot, q, rows,
           QueryWidth(), HasLatentQueries() ? model.query_rank : hidden);
  b.Linear("attention.kv_up", from.keys, Parameter("kv_up.weight", kKeyUp), kNoSlot, kv, rows,
           KeyUpWidth(), rank);
  LatentRope("attention.q_rope", q, model.heads / tp, model.head_dim, /*inverse=*/false);
  if (!from.again || split_rows) {
    LatentRope("attention.k_rope", key, 1, turned, /*inverse=*/false);
  }
  b.Add(OpKind::kLatentHeads, "attention.heads", {In(q), In(kv), In(key), Out(out)}).shape =
      LatentShape();
}

// Only the up projections run again: the narrow vectors and the rotated key were saved.
void Layer::LatentUpAgain(LayerTensors& have) {
  const auto whole = [&](Latent& latent, LayerTensor normed) {
    if (!Holds(have, normed)) LatentNorm(latent);
    have |= Only(normed);
    const std::string name = std::string(LatentName(latent)) + "_down.regather";
    return latent.whole = GatheredOf(name, latent.normed, latent.width);
  };
  const std::int16_t keys = whole(key_latent, kKeyNormed);
  if (!HasLatentQueries()) {
    if (!Holds(have, kNorm1)) Norm1();
    have |= Only(kNorm1);
    whole_norm1 = Gathered("norm1.regather", norm1);
  }
  const std::int16_t queries = HasLatentQueries() ? whole(query_latent, kQueryNormed) : whole_norm1;
  const std::int16_t out = SharesSequence() ? shared.Projection() : qkv;
  LatentUp({queries, keys, turned_key, /*again=*/true}, out);
  if (SharesSequence()) shared.Exchange(out);
}

namespace {

struct LatentBackward {
  Layer& layer;
  BlockBuilder& b;
  LayerTensors have;
  bool accumulate;
  const ModelSpec& model;
  std::int64_t rows, own_rows, hidden, rank, turned;

  LatentBackward(Layer& of, LayerTensors there, bool adds)
      : layer(of),
        b(of.b),
        have(there),
        accumulate(adds),
        model(of.context.model),
        rows(of.rows),
        own_rows(of.own_rows),
        hidden(of.hidden),
        rank(model.key_value_rank),
        turned(model.rope_head_dim) {}

  void Input() { b.Half(Pass::kBackwardInput); }
  void Weight() { b.Half(Pass::kBackwardWeight); }

  // Called in this order. The layer's input gradient waits for all of them but UpWeights, which
  // overlaps with the sums of InputsOfUp, and DownWeights.
  void Heads(std::int16_t d_qkv);
  void InputsOfUp();
  void UpWeights();
  void Norms();
  void InputsOfDown();
  void DownWeights();

  std::int16_t d_norm1 = kNoSlot;  // on own rows
  std::int16_t d_q = kNoSlot, d_kv = kNoSlot;
  // Gradients of tensors that heads share, on own rows: the norms' outputs and the rotated key.
  std::int16_t d_queries = kNoSlot, d_keys = kNoSlot, d_turned = kNoSlot;
  std::int16_t d_query_latent = kNoSlot, d_kv_down = kNoSlot;
  bool has_norm1 = Holds(have, kNorm1);

 private:
  std::int16_t NormedAgain(const Layer::Latent& latent, LayerTensor normed);
  std::int16_t Norm1Again();
  void NormGradients(const Layer::Latent& latent, std::int16_t dy, std::int16_t dx);
};

// The norm's output of all rows. It is recomputed in the input half, because gathered parameters
// exist only there.
std::int16_t LatentBackward::NormedAgain(const Layer::Latent& latent, LayerTensor normed) {
  if (latent.whole != kNoSlot) {
    Weight();
    return latent.whole;
  }
  Input();
  if (!Holds(have, normed)) layer.LatentNorm(latent);
  Weight();
  return layer.GatheredOf(std::string(layer.LatentName(latent)) + "_down.regather", latent.normed,
                          latent.width);
}

// norm1 on own rows, recomputed if it was not saved.
std::int16_t LatentBackward::Norm1Again() {
  Input();
  if (!has_norm1) layer.Norm1();
  has_norm1 = true;
  Weight();
  return layer.norm1;
}

// From the gradient of the norm's output to that of its input, and the gradient of the norm's
// weight.
void LatentBackward::NormGradients(const Layer::Latent& latent, std::int16_t dy, std::int16_t dx) {
  const std::string name = std::string(layer.LatentName(latent)) + "_down.norm";
  const LayerParameter index = layer.NormOf(latent);
  const OpShape shape{.rows = own_rows, .cols = latent.width};
  Input();
  const std::int16_t weight = layer.Parameter((name + ".weight").c_str(), index);
  Op& input = b.Add(
      OpKind::kNormBackwardInput, name + ".input_grad",
      {In(dy), In(latent.in), In(weight), In(kNoSlot), In(latent.rstd), In(kNoSlot), Out(dx)});
  input.rms = true;
  input.shape = shape;
  const std::int16_t grad = layer.Gradient(("d_" + name + ".weight").c_str(), index);
  Weight();
  Op& of_weight = b.Add(OpKind::kNormBackwardWeight, name + ".weight_grad",
                        {In(dy), In(latent.in), In(kNoSlot), In(latent.rstd),
                         accumulate ? InOut(grad) : Out(grad), Out(kNoSlot)});
  of_weight.rms = true;
  of_weight.accumulate = accumulate;
  of_weight.shape = shape;
}

// Splits the packed gradient and rotates it back. Each rank's heads give a part of the shared key's
// gradient, which is therefore summed over tp.
void LatentBackward::Heads(std::int16_t d_qkv) {
  Input();
  d_q = b.Temporary("d_q", rows * layer.QueryWidth());
  d_kv = b.Temporary("d_kv", rows * layer.KeyUpWidth());
  d_turned = b.Temporary("d_turned_key", rows * turned);
  Op& heads = b.Add(OpKind::kLatentHeads, "attention.heads.grad",
                    {In(d_qkv), Out(d_q), Out(d_kv), Out(d_turned)});
  heads.inverse = true;
  heads.shape = layer.LatentShape();
  layer.LatentRope("attention.k_rope.grad", d_turned, 1, turned, /*inverse=*/true);
  layer.LatentRope("attention.q_rope.grad", d_q, model.heads / layer.tp, model.head_dim,
                   /*inverse=*/true);
  d_turned = layer.SummedOf("attention.turned_key.grad.sum", d_turned, turned);
}

void LatentBackward::InputsOfUp() {
  const std::int16_t normed = b.Temporary("d_kv.normed", rows * rank);
  b.LinearInputGradient("attention.kv_up.input_grad", d_kv, layer.Parameter("kv_up.weight", kKeyUp),
                        normed, rows, layer.KeyUpWidth(), rank);
  d_keys = layer.SummedOf("attention.kv_up.input_grad.sum", normed, rank);
  const std::int16_t weight = layer.Parameter("q_up.weight", kQueryUp);
  if (!layer.HasLatentQueries()) {
    d_norm1 =
        layer.Sum({"attention.q_up.input_grad", false, d_q, weight, kNoSlot, layer.QueryWidth()});
    return;
  }
  const std::int16_t queries = b.Temporary("d_q.normed", rows * model.query_rank);
  b.LinearInputGradient("attention.q_up.input_grad", d_q, weight, queries, rows, layer.QueryWidth(),
                        model.query_rank);
  d_queries = layer.SummedOf("attention.q_up.input_grad.sum", queries, model.query_rank);
}

// Reads the normalized narrow vectors of all rows, gathered again if rows are split.
void LatentBackward::UpWeights() {
  const std::int16_t keys = NormedAgain(layer.key_latent, kKeyNormed);
  b.LinearWeightGradient("attention.kv_up", d_kv, keys, layer.Gradient("d_kv_up.weight", kKeyUp),
                         kNoSlot, rows, layer.KeyUpWidth(), rank, accumulate);
  const bool latent = layer.HasLatentQueries();
  const std::int16_t queries = latent ? NormedAgain(layer.query_latent, kQueryNormed)
                               : layer.whole_norm1 != kNoSlot
                                   ? layer.whole_norm1
                                   : layer.Gathered("norm1.regather", Norm1Again());
  b.LinearWeightGradient("attention.q_up", d_q, queries, layer.Gradient("d_q_up.weight", kQueryUp),
                         kNoSlot, rows, layer.QueryWidth(), latent ? model.query_rank : hidden,
                         accumulate);
}

// Through both norms to the gradients of the down projections' outputs; the key's gradient joins
// that of its latent.
void LatentBackward::Norms() {
  d_kv_down = b.Temporary("d_kv_down", own_rows * (rank + turned));
  const std::int16_t d_latent = b.Temporary("d_kv.latent", own_rows * rank);
  NormGradients(layer.key_latent, d_keys, d_latent);
  Input();
  Op& join = b.Add(OpKind::kSplitColumns, "attention.kv_down.split.grad",
                   {In(d_latent), In(d_turned), Out(d_kv_down)});
  join.inverse = true;
  join.shape = {.rows = own_rows, .cols = rank, .inner = turned};
  if (!layer.HasLatentQueries()) return;
  d_query_latent = b.Temporary("d_q.latent", own_rows * model.query_rank);
  NormGradients(layer.query_latent, d_queries, d_query_latent);
}

// Both down projections read norm1, so their input gradients add up in d_norm1.
void LatentBackward::InputsOfDown() {
  Input();
  if (layer.HasLatentQueries()) {
    d_norm1 = b.Temporary("d_norm1", own_rows * hidden);
    b.LinearInputGradient("attention.q_down.input_grad", d_query_latent,
                          layer.Parameter("q_down.weight", kQueryDown), d_norm1, own_rows,
                          model.query_rank, hidden);
  }
  b.LinearInputGradient("attention.kv_down.input_grad", d_kv_down,
                        layer.Parameter("kv_down.weight", kKeyDown), d_norm1, own_rows,
                        rank + turned, hidden, /*adds=*/true);
}

void LatentBackward::DownWeights() {
  const std::int16_t norm1 = Norm1Again();
  b.LinearWeightGradient("attention.kv_down", d_kv_down, norm1,
                         layer.Gradient("d_kv_down.weight", kKeyDown), kNoSlot, own_rows,
                         rank + turned, hidden, accumulate);
  if (!layer.HasLatentQueries()) return;
  b.LinearWeightGradient("attention.q_down", d_query_latent, norm1,
                         layer.Gradient("d_q_down.weight", kQueryDown), kNoSlot, own_rows,
                         model.query_rank, hidden, accumulate);
}

}  // namespace

// With tp > 1 the up weights' gradients come early, to overlap with the sums. Else they come last,
// so that dx leaves for the previous block sooner.
void LatentBackwardOf(Layer& layer, LayerTensors have, bool accumulate, std::int16_t d_qkv,
                      const std::function<void(std::int16_t)>& norm1_backward) {
  LatentBackward backward(layer, have, accumulate);
  const bool sums = layer.tp > 1;
  backward.Heads(d_qkv);
  backward.InputsOfUp();
  if (sums) backward.UpWeights();
  backward.Norms();
  backward.InputsOfDown();
  norm1_backward(backward.d_norm1);
  if (!sums) backward.UpWeights();
  backward.DownWeights();
}

}  // namespace foretrain
