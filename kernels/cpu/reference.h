// What each kernel computes, written plainly in double precision: what the kernels of every device
// are tested against. Leaves out speed, strides and blocks. Tensors are dense row-major vectors;
// shapes are those of base/device_api.h. Callers give tensors of the right size: nothing is
// checked.
#pragma once

#include <cstdint>
#include <vector>

namespace foretrain::reference {

using Tensor = std::vector<double>;

// op(a)[m, k] * op(b)[k, n] (+ bias[n]): [m, n]; a is stored [m, k], or [k, m] where trans_a, b [k,
// n] or [n, k]; an empty bias is none.
struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false;
};
Tensor Gemm(const GemmShape& shape, const Tensor& a, const Tensor& b, const Tensor& bias);

// The sums of the columns of dy[rows, cols]: [cols].
Tensor BiasGrad(std::int64_t cols, const Tensor& dy);

// table[ids] + positions[row % sequence]: [rows, cols]; empty positions are none.
struct EmbeddingShape {
  std::int64_t cols = 0, vocab = 0, sequence = 0;
};
Tensor EmbeddingForward(const EmbeddingShape& shape, const std::vector<std::int32_t>& ids,
                        const Tensor& table, const Tensor& positions);
struct EmbeddingGrads {
  Tensor table, positions;  // [vocab, cols], [sequence, cols]
};
EmbeddingGrads EmbeddingBackward(const EmbeddingShape& shape, const std::vector<std::int32_t>& ids,
                                 const Tensor& dy);

// LayerNorm (Ba et al. 2016), or RMSNorm (Zhang and Sennrich 2019) where rms: bias is empty and
// mean 0.
struct NormShape {
  std::int64_t cols = 0;
  double epsilon = 0.0;
  bool rms = false;
};
struct NormOutputs {
  Tensor y, mean, rstd;  // [rows, cols], [rows], [rows]
};
NormOutputs NormForward(const NormShape& shape, const Tensor& x, const Tensor& weight,
                        const Tensor& bias);
struct NormGrads {
  Tensor x, weight, bias;  // bias is empty where rms
};
NormGrads NormBackward(const NormShape& shape, const Tensor& dy, const Tensor& x,
                       const Tensor& weight, const Tensor& mean, const Tensor& rstd);

// Rotates each head of x[rows, heads, head_dim], as FtRope says.
struct RopeShape {
  std::int64_t sequence = 0, heads = 0, head_dim = 0;
  double theta = 10000.0;
  bool inverse = false;
  // Frequencies of the pairs in place of theta's, and what sines and cosines are multiplied by.
  Tensor frequencies = {};
  double magnitude = 1.0;
};
Tensor Rope(const RopeShape& shape, const Tensor& x);

// Causal attention; q is [batch, sequence, heads, head_dim], k and v have kv_heads heads. With a
// window a query sees that many keys, itself and those before it; 0: all before it. v and out have
// heads of value_dim, 0: head_dim. softcap, alibi_heads and first_head are FtAttentionForward's.
struct AttentionShape {
  std::int64_t batch = 0, sequence = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t window = 0;
  std::int64_t value_dim = 0, alibi_heads = 0, first_head = 0;
  double softcap = 0.0;

  std::int64_t ValueDim() const { return value_dim > 0 ? value_dim : head_dim; }
  // What is left of a scaled score, and its derivative.
  double Bent(double score, std::int64_t head, std::int64_t distance) const;
  double BentSlope(double score) const;

  std::int64_t FirstKey(std::int64_t query) const {
    return window > 0 && query >= window ? query + 1 - window : 0;
  }
};
struct AttentionOutputs {
  Tensor out, lse;  // like q, [batch, sequence, heads]
};
AttentionOutputs AttentionForward(const AttentionShape& shape, const Tensor& q, const Tensor& k,
                                  const Tensor& v);
struct AttentionGrads {
  Tensor q, k, v;
};
AttentionGrads AttentionBackward(const AttentionShape& shape, const Tensor& q, const Tensor& k,
                                 const Tensor& v, const Tensor& out, const Tensor& lse,
                                 const Tensor& dout);

// tanh GELU (Hendrycks and Gimpel 2016).
Tensor GeluForward(const Tensor& x);
Tensor GeluBackward(const Tensor& x, const Tensor& dy);

// silu(gate) * up of x[rows, gate then up] (Shazeer 2020); the gradient is that of x.
Tensor SwigluForward(std::int64_t cols, const Tensor& x);
Tensor SwigluBackward(std::int64_t cols, const Tensor& x, const Tensor& dy);

// a + b (+ bias[cols]).
Tensor Add(std::int64_t cols, const Tensor& a, const Tensor& b, const Tensor& bias);

// Targets outside [0, vocab) add nothing to the loss and have no gradient.
struct CrossEntropyOutputs {
  double loss = 0.0;
  Tensor lse;  // [rows]
};
CrossEntropyOutputs CrossEntropyForward(std::int64_t vocab, double scale, const Tensor& logits,
                                        const std::vector<std::int32_t>& targets);
Tensor CrossEntropyBackward(std::int64_t vocab, double scale, const Tensor& logits,
                            const std::vector<std::int32_t>& targets, const Tensor& lse);

double SquaredNorm(const Tensor& x);

// One AdamW step (Loshchilov and Hutter 2019) in place.
struct AdamWSettings {
  std::int64_t decayed = 0, step = 1;
  double lr = 0.0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.0;
  double max_norm = 0.0;
  double squared_norm = -1.0;  // negative: no clipping
};
void AdamW(const AdamWSettings& settings, const Tensor& grad, Tensor& param, Tensor& moment1,
           Tensor& moment2);

}  // namespace foretrain::reference
