// What attention of some queries over some keys computes, written plainly in double precision, as
// kernels/cpu/reference.h does for all others: each row has a position of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/reference.h"

namespace foretrain::reference {

// q is [batch, queries, heads, head_dim]; k and v are [batch, keys, kv_heads, head_dim]. A query
// sees the keys whose position is not past its own, or of these with a window those in it (0: all);
// positions are the same in all samples.
struct AttentionPartShape {
  std::int64_t batch = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::vector<std::int64_t> queries, keys;  // positions
  std::int64_t window = 0;

  bool Sees(std::int64_t query, std::int64_t key) const {
    return key <= query && (window == 0 || query - key < window);
  }
};

// A query that sees no key has output 0 and lse -inf.
AttentionOutputs AttentionPartForward(const AttentionPartShape& shape, const Tensor& q,
                                      const Tensor& k, const Tensor& v);

// What flows through these keys alone; `out` and `lse` are those over all keys that a query sees
// anywhere.
AttentionGrads AttentionPartBackward(const AttentionPartShape& shape, const Tensor& q,
                                     const Tensor& k, const Tensor& v, const Tensor& out,
                                     const Tensor& lse, const Tensor& dout);

// The result over two disjoint sets of keys from those over each.
AttentionOutputs MergeParts(const AttentionPartShape& shape, const AttentionOutputs& a,
                            const AttentionOutputs& b);

}  // namespace foretrain::reference
