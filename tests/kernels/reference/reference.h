// Reference for each kernel, written plainly in double precision. The kernels of every device are
// tested against it. Speed, strides and blocking are left out. Tensors are dense row-major vectors
// with the shapes of base/device_api.h. Sizes are not checked.
#pragma once

#include <cstdint>
#include <vector>

namespace foretrain::reference {

using Tensor = std::vector<double>;

// op(a)[m, k] * op(b)[k, n] (+ bias[n]): [m, n]. a is stored [m, k], or [k, m] if trans_a; b is
// stored [k, n], or [n, k] if trans_b. An empty bias means none.
struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false;
};
Tensor Gemm(const GemmShape& shape, const Tensor& a, const Tensor& b, const Tensor& bias);

// Column sums of dy[rows, cols]: [cols].
Tensor BiasGrad(std::int64_t cols, const Tensor& dy);

// table[ids] + positions[row % sequence]: [rows, cols]. Empty positions mean none.
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

// LayerNorm (Ba et al. 2016), or RMSNorm (Zhang and Sennrich 2019) if rms; bias is then empty and
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
  Tensor x, weight, bias;  // bias is empty if rms
};
NormGrads NormBackward(const NormShape& shape, const Tensor& dy, const Tensor& x,
                       const Tensor& weight, const Tensor& mean, const Tensor& rstd);

// Rotates each head of x[rows, heads, head_dim], as in FtRope.
struct RopeShape {
  std::int64_t sequence = 0, heads = 0, head_dim = 0;
  double theta = 10000.0;
  bool inverse = false;
  // Frequencies of the pairs; if empty, theta defines them. magnitude multiplies sines and cosines.
  Tensor frequencies = {};
  double magnitude = 1.0;
};
Tensor Rope(const RopeShape& shape, const Tensor& x);

// Causal attention. q is [batch, sequence, heads, head_dim]; k and v have kv_heads heads. With
// window > 0 a query sees that many keys, itself included; 0: all keys up to its own. Heads of v
// and out have value_dim elements; 0 means head_dim. softcap, alibi_heads and first_head are as in
// FtAttentionForward.
struct AttentionShape {
  std::int64_t batch = 0, sequence = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t window = 0;
  std::int64_t value_dim = 0, alibi_heads = 0, first_head = 0;
  double softcap = 0.0;

  std::int64_t ValueDim() const { return value_dim > 0 ? value_dim : head_dim; }
  // Score after soft cap and ALiBi bias, and its derivative with respect to the scaled score.
  double Bent(double score, std::int64_t head, std::int64_t distance) const;
  double BentSlope(double score) const;

  std::int64_t FirstKey(std::int64_t query) const {
    return window > 0 && query >= window ? query + 1 - window : 0;
  }
};
struct AttentionOutputs {
  Tensor out, lse;  // [batch, sequence, heads, ValueDim()], [batch, sequence, heads]
};
AttentionOutputs AttentionForward(const AttentionShape& shape, const Tensor& q, const Tensor& k,
                                  const Tensor& v);
struct AttentionGrads {
  Tensor q, k, v;
};
AttentionGrads AttentionBackward(const AttentionShape& shape, const Tensor& q, const Tensor& k,
                                 const Tensor& v, const Tensor& out, const Tensor& lse,
                                 const Tensor& dout);

// GELU, tanh approximation (Hendrycks and Gimpel 2016).
Tensor GeluForward(const Tensor& x);
Tensor GeluBackward(const Tensor& x, const Tensor& dy);

// silu(gate) * up for x[rows, gate then up] (Shazeer 2020). The backward returns the gradient of x.
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
