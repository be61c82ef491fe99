// QkvColumns, the columns of queries, keys and values in a row of attention's input.
#pragma once

#include <cstdint>

#include "runtime/ops/kernel_call.h"
#include "sim/program/ir/op.h"

namespace foretrain {

// Offsets in elements from the start of a row [q | k | v] or, with `own`, of a row [k | v].
struct QkvColumns {
  explicit QkvColumns(const OpShape& s, bool own = false)
      : k(own ? 0 : std::int64_t{s.heads} * s.head_dim),
        v(k + std::int64_t{s.kv_heads} * s.head_dim),
        stride(v + std::int64_t{s.kv_heads} * s.ValueDim()) {}
  std::int64_t k;
  std::int64_t v;
  std::int64_t stride;
};

// True if two operands are the same tensor.
inline bool SameTensor(const BoundOp& op, OperandName a, OperandName b) {
  return op.operands[PositionOf(op.op, a)].slot == op.operands[PositionOf(op.op, b)].slot;
}

// Index of the op's first head among the model's heads. tp ranks have consecutive shares of the
// heads. With all-to-all context parallelism (queries of all tokens) each share is divided again
// over cp ranks.
inline std::int32_t FirstHead(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  const bool by_heads = s.rows > s.batch * s.sequence;
  return (by_heads ? op.tp * s.cp + op.cp : op.tp) * s.heads;
}

}  // namespace foretrain
