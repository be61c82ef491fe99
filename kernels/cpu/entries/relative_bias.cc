// Biases of attention by distance, from T5's table of relative positions, and the table's gradient.
// A call touches one number a head and distance, so plain loops are fast enough.
#include <cstdint>

#include "base/numeric/relative_buckets.h"
#include "kernels/cpu/entries/entry.h"
#include "kernels/cpu/entries/families.h"

namespace foretrain {
namespace {

// Calls body(i, bucket) for the i-th distance, the least one first.
template <class Arguments, class Body>
void ForEachDistance(const Arguments& g, const Body& body) {
  for (std::int64_t i = 0; i < g.queries + g.keys - 1; ++i) {
    body(i, RelativeBucket(i - (g.queries - 1), g.buckets, g.max_distance, g.bidirectional != 0));
  }
}

void RelativeBias(const FtRelativeBias& g) {
  const auto* const table = static_cast<const float*>(g.table);
  const std::int64_t stride = g.queries + g.keys - 1;
  ForEachDistance(g, [&](std::int64_t i, std::int32_t bucket) {
    for (std::int64_t head = 0; head < g.heads; ++head) {
      g.bias[head * stride + i] = table[bucket * std::int64_t{g.heads} + head];
    }
  });
}

// The least distance comes first in every sum, so equal inputs give equal bits.
void RelativeBiasBackward(const FtRelativeBiasBackward& g) {
  const auto* const dy = static_cast<const float*>(g.dy);
  auto* const dx = static_cast<float*>(g.dx);
  const std::int64_t stride = g.queries + g.keys - 1;
  for (std::int64_t i = 0; i < std::int64_t{g.buckets} * g.heads; ++i) dx[i] = dy[i];
  ForEachDistance(g, [&](std::int64_t i, std::int32_t bucket) {
    for (std::int64_t head = 0; head < g.heads; ++head) {
      dx[bucket * std::int64_t{g.heads} + head] += g.bias_grad[head * stride + i];
    }
  });
}

}  // namespace

void SetRelativeBiasEntries(FtDeviceApi& api) {
  Set<&FtDeviceApi::relative_bias, &RelativeBias>(api);
  Set<&FtDeviceApi::relative_bias_backward, &RelativeBiasBackward>(api);
}

}  // namespace foretrain
