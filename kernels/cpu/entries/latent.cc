// Assembles and splits the heads of multi-head latent attention, and applies attention sinks. Both
// touch each element once, so plain loops are fast enough.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cpu/entries/entry.h"
#include "kernels/cpu/entries/families.h"

namespace foretrain {
namespace {

// One row of each tensor, with accessors for its heads.
struct LatentRow {
  const FtLatentHeads& g;
  float* q;
  float* kv;
  float* turned;
  float* qkv;

  LatentRow(const FtLatentHeads& of, std::int64_t row)
      : g(of),
        q(static_cast<float*>(of.q) + row * of.heads * of.head_dim),
        kv(static_cast<float*>(of.kv) + row * of.heads * (Plain() + of.value_dim)),
        turned(static_cast<float*>(of.turned_key) + row * of.rotary),
        qkv(static_cast<float*>(of.qkv) + row * of.heads * (2 * of.head_dim + of.value_dim)) {}

  std::int64_t Plain() const { return g.head_dim - g.rotary; }
  float* Key(std::int64_t head) const { return qkv + (g.heads + head) * g.head_dim; }
  float* Value(std::int64_t head) const {
    return qkv + 2 * std::int64_t{g.heads} * g.head_dim + head * g.value_dim;
  }
  float* KeyAndValue(std::int64_t head) const { return kv + head * (Plain() + g.value_dim); }
};

// Every key head gets its own part without rotary embedding, then the shared rotary part.
void Join(const LatentRow& row) {
  const FtLatentHeads& g = row.g;
  std::copy_n(row.q, std::int64_t{g.heads} * g.head_dim, row.qkv);
  for (std::int64_t head = 0; head < g.heads; ++head) {
    const float* const from = row.KeyAndValue(head);
    std::copy_n(from, row.Plain(), row.Key(head));
    std::copy_n(row.turned, g.rotary, row.Key(head) + row.Plain());
    std::copy_n(from + row.Plain(), g.value_dim, row.Value(head));
  }
}

// Inverse of Join for gradients: the shared rotary part receives the sum over the heads.
void Split(const LatentRow& row) {
  const FtLatentHeads& g = row.g;
  std::copy_n(row.qkv, std::int64_t{g.heads} * g.head_dim, row.q);
  std::fill_n(row.turned, g.rotary, 0.0F);
  for (std::int64_t head = 0; head < g.heads; ++head) {
    float* const to = row.KeyAndValue(head);
    const float* const key = row.Key(head);
    std::copy_n(key, row.Plain(), to);
    for (std::int64_t i = 0; i < g.rotary; ++i) row.turned[i] += key[row.Plain() + i];
    std::copy_n(row.Value(head), g.value_dim, to + row.Plain());
  }
}

void LatentHeads(const FtLatentHeads& g) {
  for (std::int64_t row = 0; row < g.rows; ++row) {
    g.inverse != 0 ? Split(LatentRow(g, row)) : Join(LatentRow(g, row));
  }
}

// The sink only enlarges the softmax's denominator: lse grows, and out shrinks by e^(old lse - new
// lse).
void SinkForward(const FtSinkForward& g) {
  const auto* sinks = static_cast<const float*>(g.sinks);
  for (std::int64_t item = 0; item < g.rows * g.heads; ++item) {
    const float sink = sinks[item % g.heads], before = g.lse[item];
    const float most = std::max(sink, before);
    const float after = most + std::log(std::exp(before - most) + std::exp(sink - most));
    const float share = std::exp(before - after);
    float* const out = static_cast<float*>(g.out) + item * g.head_dim;
    for (std::int64_t i = 0; i < g.head_dim; ++i) out[i] *= share;
    g.lse[item] = after;
  }
}

// d sink = -p_sink * (dout . out), summed over rows in fp64.
void SinkBackward(const FtSinkBackward& g) {
  const auto* sinks = static_cast<const float*>(g.sinks);
  auto* grad = static_cast<float*>(g.sinks_grad);
  for (std::int64_t head = 0; head < g.heads; ++head) {
    double sum = 0.0;
    for (std::int64_t row = 0; row < g.rows; ++row) {
      const std::int64_t item = row * g.heads + head;
      const auto* const out = static_cast<const float*>(g.out) + item * g.head_dim;
      const auto* const dout = static_cast<const float*>(g.dout) + item * g.head_dim;
      float dot = 0.0F;
      for (std::int64_t i = 0; i < g.head_dim; ++i) dot += out[i] * dout[i];
      sum -= static_cast<double>(std::exp(sinks[head] - g.lse[item]) * dot);
    }
    const double before = g.accumulate != 0 ? static_cast<double>(grad[head]) : 0.0;
    grad[head] = static_cast<float>(before + sum);
  }
}

}  // namespace

void SetLatentEntries(FtDeviceApi& api) {
  Set<&FtDeviceApi::latent_heads, &LatentHeads>(api);
  Set<&FtDeviceApi::sink_forward, &SinkForward>(api);
  Set<&FtDeviceApi::sink_backward, &SinkBackward>(api);
}

}  // namespace foretrain
