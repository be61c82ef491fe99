// Attention with materialized score matrices: products run on the queue's GEMM, rows on plain
// loops.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cpu/entries/entry.h"
#include "kernels/cpu/entries/families.h"
#include "kernels/cpu/random_mask.h"

namespace foretrain {
namespace {

// A given scale of 0 means 1 / sqrt(head_dim).
template <class Arguments>
float ScaleOf(const Arguments& g) {
  return g.scale > 0.0F ? g.scale : 1.0F / std::sqrt(static_cast<float>(g.head_dim));
}

// Offsets, in elements, of one head of one sample: its matrix, query, key and output.
template <class Arguments>
struct Head {
  Head(const Arguments& g, std::int64_t item)
      : sample(item / g.heads),
        head(item % g.heads),
        matrix(item * g.sequence * g.sequence),
        query(sample * g.sequence * g.row_stride + head * g.head_dim),
        key(sample * g.sequence * g.row_stride + head / (g.heads / g.kv_heads) * g.head_dim),
        out_stride(std::int64_t{g.heads} * g.head_dim),
        out(sample * g.sequence * out_stride + head * g.head_dim) {}
  std::int64_t sample, head, matrix, query, key, out_stride, out;
};

// Address of element `number` of an fp32 tensor.
const float* At(const void* tensor, std::int64_t number) {
  return static_cast<const float*>(tensor) + number;
}
float* At(void* tensor, std::int64_t number) { return static_cast<float*>(tensor) + number; }

// Arguments of c (+)= scale * op(a) op(b) in fp32.
struct Product {
  const float* a;
  const float* b;
  float* c;
  std::int64_t m, n, k, lda, ldb, ldc;
  bool trans_a = false, trans_b = false, adds = false;
  float scale = 1.0F;
};
FtStatus Multiply(FtQueue* queue, const Product& p) {
  FtGemm gemm{};
  gemm.a = p.a, gemm.b = p.b, gemm.c = p.c;
  gemm.m = p.m, gemm.n = p.n, gemm.k = p.k;
  gemm.lda = p.lda, gemm.ldb = p.ldb, gemm.ldc = p.ldc;
  gemm.trans_a = p.trans_a, gemm.trans_b = p.trans_b, gemm.accumulate = p.adds,
  gemm.scale = p.scale;
  return RunGemm(queue, &gemm);
}

// Softmax of scores [first, seen); weights outside are 0.
void SoftmaxRow(const float* scores, std::int64_t first, std::int64_t seen, std::int64_t columns,
                float* weights) {
  std::fill(weights, weights + columns, 0.0F);
  const float most = *std::max_element(scores + first, scores + seen);
  float sum = 0.0F;
  for (std::int64_t j = first; j < seen; ++j) {
    weights[j] = std::exp(scores[j] - most);
    sum += weights[j];
  }
  for (std::int64_t j = first; j < seen; ++j) weights[j] /= sum;
}

// Dropout of a row of weights: writes the mask as bytes, and the weights times the factors.
void DropRow(const FtStandardAttentionForward& g, const Head<FtStandardAttentionForward>& of,
             std::int64_t query, const float* weights) {
  const std::int64_t at = of.matrix + query * g.sequence;
  float* const dropped = At(g.dropped, at);
  KeepFactors(g.random, of.sample, of.head, query, 0, g.sequence, dropped);
  for (std::int64_t j = 0; j < g.sequence; ++j) {
    g.mask[at + j] = dropped[j] > 0.0F ? 1 : 0;
    dropped[j] *= weights[j];
  }
}

// Computes the full matrix, also above the diagonal; the softmax then ignores what a query does not
// see. Without dropout `weights` itself multiplies the values.
FtStatus ForwardOfHead(FtQueue* queue, const FtStandardAttentionForward& g, std::int64_t item) {
  const Head<FtStandardAttentionForward> of(g, item);
  const std::int64_t s = g.sequence;
  float* const scores = At(g.scores, of.matrix);
  const FtStatus status = Multiply(queue, {.a = At(g.q, of.query),
                                           .b = At(g.k, of.key),
                                           .c = scores,
                                           .m = s,
                                           .n = s,
                                           .k = g.head_dim,
                                           .lda = g.row_stride,
                                           .ldb = g.row_stride,
                                           .ldc = s,
                                           .trans_b = true,
                                           .scale = ScaleOf(g)});
  if (status != FT_OK) return status;
  for (std::int64_t i = 0; i < s; ++i) {
    const std::int64_t document =
        g.document_starts != nullptr
            ? std::clamp<std::int64_t>(g.document_starts[of.sample * s + i], 0, i)
            : 0;
    const std::int64_t first = g.window > 0 ? std::max(document, i + 1 - g.window) : document;
    float* const weights = At(g.weights, of.matrix + i * s);
    SoftmaxRow(scores + i * s, first, i + 1, s, weights);
    if (g.mask != nullptr) DropRow(g, of, i, weights);
  }
  if (g.out == nullptr) return FT_OK;
  return Multiply(queue, {.a = At(g.mask != nullptr ? g.dropped : g.weights, of.matrix),
                          .b = At(g.v, of.key),
                          .c = At(g.out, of.out),
                          .m = s,
                          .n = g.head_dim,
                          .k = s,
                          .lda = s,
                          .ldb = g.row_stride,
                          .ldc = of.out_stride});
}

// One head of one sample at a time: three passes over its matrix while it is in cache, if it fits.
// The work grows with the square of the sequence.
void Forward(Check& check, const FtStandardAttentionForward& g) {
  for (std::int64_t item = 0; check.ok() && item < g.batch * g.heads; ++item) {
    if (g.sequence > 0) check.Adopt(ForwardOfHead(check.queue(), g, item));
  }
}

// Turns gradients of dropped weights into gradients of scores: w (g - sum over keys of w g), with g
// the gradient of the weights. Works in place.
void ScoreGradients(const FtStandardAttentionBackward& g, std::int64_t matrix) {
  const float kept = 1.0F / (1.0F - g.probability);
  for (std::int64_t i = 0; i < g.sequence; ++i) {
    const std::int64_t at = matrix + i * g.sequence;
    const float* const weights = At(g.weights, at);
    float* const d = At(g.d_scores, at);
    float sum = 0.0F;
    for (std::int64_t j = 0; j < g.sequence; ++j) {
      if (g.mask != nullptr) d[j] = g.mask[at + j] != 0 ? kept * d[j] : 0.0F;
      sum += weights[j] * d[j];
    }
    for (std::int64_t j = 0; j < g.sequence; ++j) d[j] = weights[j] * (d[j] - sum);
  }
}

// Order matters: d_scores first holds the gradient of the weights, then ScoreGradients replaces it.
// dq and dk read the result.
FtStatus BackwardOfHead(FtQueue* queue, const FtStandardAttentionBackward& g, std::int64_t item) {
  const Head<FtStandardAttentionBackward> of(g, item);
  const std::int64_t s = g.sequence, d = g.head_dim;
  // Later query heads of a group add to the dk and dv of earlier ones.
  const bool adds = of.head % (g.heads / g.kv_heads) != 0;
  float* const d_scores = At(g.d_scores, of.matrix);
  const float* const dout = At(g.dout, of.out);
  const float* const dropped = At(g.mask != nullptr ? g.dropped : g.weights, of.matrix);
  const Product of_weights{.a = dout,
                           .b = At(g.v, of.key),
                           .c = d_scores,
                           .m = s,
                           .n = s,
                           .k = d,
                           .lda = of.out_stride,
                           .ldb = g.row_stride,
                           .ldc = s,
                           .trans_b = true};
  const Product of_values{.a = dropped,
                          .b = dout,
                          .c = At(g.dv, of.key),
                          .m = s,
                          .n = d,
                          .k = s,
                          .lda = s,
                          .ldb = of.out_stride,
                          .ldc = g.row_stride,
                          .trans_a = true,
                          .adds = adds};
  const Product of_queries{.a = d_scores,
                           .b = At(g.k, of.key),
                           .c = At(g.dq, of.query),
                           .m = s,
                           .n = d,
                           .k = s,
                           .lda = s,
                           .ldb = g.row_stride,
                           .ldc = g.row_stride,
                           .scale = ScaleOf(g)};
  const Product of_keys{.a = d_scores,
                        .b = At(g.q, of.query),
                        .c = At(g.dk, of.key),
                        .m = s,
                        .n = d,
                        .k = s,
                        .lda = s,
                        .ldb = g.row_stride,
                        .ldc = g.row_stride,
                        .trans_a = true,
                        .adds = adds,
                        .scale = ScaleOf(g)};
  for (const Product* product : {&of_weights, &of_values}) {
    if (const FtStatus status = Multiply(queue, *product); status != FT_OK) return status;
  }
  ScoreGradients(g, of.matrix);
  for (const Product* product : {&of_queries, &of_keys}) {
    if (const FtStatus status = Multiply(queue, *product); status != FT_OK) return status;
  }
  return FT_OK;
}

void Backward(Check& check, const FtStandardAttentionBackward& g) {
  for (std::int64_t item = 0; check.ok() && item < g.batch * g.heads; ++item) {
    if (g.sequence > 0) check.Adopt(BackwardOfHead(check.queue(), g, item));
  }
}

}  // namespace

void SetStandardAttentionEntries(FtDeviceApi& api) {
  Set<&FtDeviceApi::standard_attention_forward, &Forward>(api);
  Set<&FtDeviceApi::standard_attention_backward, &Backward>(api);
}

}  // namespace foretrain
