// Bundles the operators of a trace that run within another one. On the host operators nest:
// aten::linear runs aten::matmul, which runs aten::mm. All of them are one piece of work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace foretrain {

// One operator: its time is in one or more pieces between those of the operators that it runs.
struct OperatorCall {
  std::int64_t start_ns = 0;  // of the first piece
  std::int64_t end_ns = 0;    // of the last
  std::int64_t busy_ns = 0;   // of all pieces
  int pieces = 1;
  bool is_frame = false;  // only runs others, which may be different work: a node of autograd
  bool is_heavy = false;  // a product or attention
};

// Returns, for each call, the index of the outermost call that it is a part of, its own if it is
// that. A frame is that for all within it, unless it runs several heavy calls: then it is a part of
// the longest of these.
//
//   calls  sorted by start; kernels of a device, which do not nest, have one piece each
//
// O(calls * depth).
std::vector<std::size_t> OutermostCalls(const std::vector<OperatorCall>& calls);

}  // namespace foretrain
