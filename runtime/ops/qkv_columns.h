// Where queries, keys and values lie in a row of attention's input.
#pragma once

#include <cstdint>

#include "sim/program/op.h"

namespace foretrain {

// In elements from the start of a row [q | k | v] or, for keys and values in a tensor of their own,
// [k | v].
struct QkvColumns {
  explicit QkvColumns(const OpShape& s, bool own = false)
      : k(own ? 0 : std::int64_t{s.heads} * s.head_dim),
        v(k + std::int64_t{s.kv_heads} * s.head_dim),
        stride(v + std::int64_t{s.kv_heads} * s.head_dim) {}
  std::int64_t k;
  std::int64_t v;
  std::int64_t stride;
};

}  // namespace foretrain
