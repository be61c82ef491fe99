// Where queries, keys and values lie in a row of attention's input.
#pragma once

#include <cstdint>

#include "runtime/ops/kernel_call.h"
#include "sim/program/op.h"

namespace foretrain {

// In elements from the start of a row [q | k | v] or, for keys and values in a tensor of their own,
// [k | v].
struct QkvColumns {
  explicit QkvColumns(const OpShape& s, bool own = false)
      : k(own ? 0 : std::int64_t{s.heads} * s.head_dim),
        v(k + std::int64_t{s.kv_heads} * s.head_dim),
        stride(v + std::int64_t{s.kv_heads} * s.ValueDim()) {}
  std::int64_t k;
  std::int64_t v;
  std::int64_t stride;
};

// The first head of an attention op among all heads of the model: tp ranks have parts of them and,
// where a part goes by heads over cp ranks (queries of all tokens), those parts of it.
inline std::int32_t FirstHead(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  const bool by_heads = s.rows > s.batch * s.sequence;
  return (by_heads ? op.tp * s.cp + op.cp : op.tp) * s.heads;
}

}  // namespace foretrain
