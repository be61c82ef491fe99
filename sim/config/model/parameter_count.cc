#include "sim/config/model/parameter_count.h"

namespace foretrain {
namespace {

// Counts in type N: int64 for the result, double to detect overflow. Weights are [out, in] and
// biases [out]. Every term is positive or absent, so no partial sum exceeds the total.
template <class N>
class Counter {
 public:
  explicit Counter(const ModelSpec& model) : m_(model), hidden_(N(model.hidden)) {}

  N All(std::int64_t experts) const {
    const N mtp_layers = N(m_.predict_ahead);
    const N dense = N(m_.DenseLayers()), sparse = N(m_.layers - m_.DenseLayers());
    N count = Tables() + Norm(hidden_) + HeadTransform();
    if (m_.embedding_norm) count += Norm(hidden_);
    if (dense > 0) count += dense * (Common() + Mlp());
    if (sparse > 0) count += sparse * (Common() + Experts(experts));
    if (m_.encoder_layers > 0) count += Encoder() + N(m_.layers) * CrossAttention();
    if (mtp_layers == 0) return count;
    const N last = Common() + (m_.HasExperts(m_.layers - 1) ? Experts(experts) : Mlp());
    // MTP: norms of the hidden state and of the next token's embedding, their joint projection, and
    // a final norm.
    count += mtp_layers * (3 * Norm(hidden_) + 2 * hidden_ * hidden_ + last);
    return count;
  }

 private:
  N Tables() const {
    const N table = N(m_.vocab) * hidden_;
    N count = m_.tied_embeddings ? table : 2 * table;
    if (m_.positions == PositionKind::kLearned) count += N(m_.PositionRows()) * hidden_;
    if (m_.token_types > 0) count += N(m_.token_types) * hidden_;
    if (m_.positions == PositionKind::kRelative) count += Buckets();
    if (m_.head_bias) count += N(m_.vocab);
    return count;
  }

  // One table of each stack, which all its layers share (Raffel et al. 2020, s. 2.1).
  N Buckets() const { return N(m_.relative_buckets) * N(m_.heads); }

  N HeadTransform() const {
    return m_.head_transform ? Linear(hidden_, hidden_, true) + Norm(hidden_) : N(0);
  }

  // The encoder's layers are the decoder's without cross-attention; it has a final norm.
  N Encoder() const {
    const N tables = m_.positions == PositionKind::kRelative ? Buckets() : N(0);
    return N(m_.encoder_layers) * (Common() + Mlp()) + Norm(hidden_) + tables;
  }
  N CrossAttention() const { return HeadAttention() + Norm(hidden_); }

  N Norm(N width) const { return m_.HasNormBias() ? 2 * width : width; }

  N Linear(N out, N in, bool bias) const { return out * in + (bias ? out : N(0)); }

  N HeadAttention() const {
    const N head = N(m_.head_dim), heads = N(m_.heads);
    N count = Linear((heads + 2 * N(m_.kv_heads)) * head, hidden_, m_.attention_bias);
    if (m_.qk_norm) count += m_.qk_norm_whole ? (heads + N(m_.kv_heads)) * head : 2 * head;
    return count + Linear(hidden_, heads * head, m_.output_bias);
  }

  // Both norms of latent vectors are RMSNorms (DeepSeek-AI 2024, appendix C).
  N LatentAttention() const {
    const N heads = N(m_.heads), queries = heads * N(m_.head_dim);
    const N rank = N(m_.query_rank), kv_rank = N(m_.key_value_rank);
    const N rope = N(m_.rope_head_dim), value = N(m_.value_head_dim);
    N count = rank > 0 ? rank * hidden_ + rank + queries * rank : queries * hidden_;
    count += (kv_rank + rope) * hidden_ + kv_rank;
    count += heads * (N(m_.head_dim) - rope + value) * kv_rank;
    return count + hidden_ * heads * value;
  }

  // Attention and the norms of a layer.
  N Common() const {
    N count = m_.attention == AttentionKind::kLatent ? LatentAttention() : HeadAttention();
    if (m_.attention_sinks) count += N(m_.heads);
    const int before = m_.order == LayerOrder::kParallelOneNorm ? 1 : 2;
    const int norms = (m_.pre_norms ? before : 0) + (m_.post_norms ? 2 : 0);
    return count + N(norms) * Norm(hidden_);
  }

  N TwoLinears(N up, N width, bool bias) const {
    return Linear(up, hidden_, bias) + Linear(hidden_, width, bias);
  }

  N Mlp() const { return TwoLinears(N(m_.MlpUpWidth()), N(m_.ffn_hidden), m_.mlp_bias); }

  N Experts(std::int64_t experts) const {
    const N one = TwoLinears(N(m_.ExpertUpWidth()), N(m_.expert_ffn_hidden), m_.expert_bias);
    N count = Linear(N(m_.experts), hidden_, m_.router_bias) + N(experts) * one;
    if (m_.shared_ffn_hidden > 0) {
      count += TwoLinears(N(m_.SharedUpWidth()), N(m_.shared_ffn_hidden), false);
    }
    return count + (m_.shared_gate ? hidden_ : N(0));
  }

  const ModelSpec& m_;
  N hidden_;
};

}  // namespace

double ApproximateParameterCount(const ModelSpec& model) {
  return Counter<double>(model).All(model.experts);
}

std::int64_t ParameterCount(const ModelSpec& model) {
  return Counter<std::int64_t>(model).All(model.experts);
}

std::int64_t ActiveParameterCount(const ModelSpec& model) {
  return Counter<std::int64_t>(model).All(model.experts_per_token);
}

}  // namespace foretrain
