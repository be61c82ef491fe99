// Reference for attention over parts of a sequence, in double precision. Each row has its own
// position.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/kernels/reference/reference.h"

namespace foretrain::reference {

// q is [batch, queries, heads, head_dim]; k and v are [batch, keys, kv_heads, head_dim]. A query
// sees keys at positions up to its own; with a window, only the last `window` of them. Positions
// are the same in all samples.
struct AttentionPartShape {
  std::int64_t batch = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::vector<std::int64_t> queries, keys;  // positions in the sequence
  std::int64_t window = 0;

  bool Sees(std::int64_t query, std::int64_t key) const {
    return key <= query && (window == 0 || query - key < window);
  }
};

// A query that sees no key has output 0 and lse -inf.
AttentionOutputs AttentionPartForward(const AttentionPartShape& shape, const Tensor& q,
                                      const Tensor& k, const Tensor& v);

// Gradients through these keys alone. `out` and `lse` cover all keys that a query sees, in any
// part.
AttentionGrads AttentionPartBackward(const AttentionPartShape& shape, const Tensor& q,
                                     const Tensor& k, const Tensor& v, const Tensor& out,
                                     const Tensor& lse, const Tensor& dout);

// Combines the results over two disjoint sets of keys.
AttentionOutputs MergeParts(const AttentionPartShape& shape, const AttentionOutputs& a,
                            const AttentionOutputs& b);

}  // namespace foretrain::reference
