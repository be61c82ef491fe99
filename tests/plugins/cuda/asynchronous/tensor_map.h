// The tests' contents of a CUtensorMap, which cuTensorMapEncodeTiled of the tests fills and a bulk
// copy reads. Only tensors of 16-bit elements in boxes with rows of 128 bytes and 128-byte swizzle.
#pragma once

#include <cstdint>

namespace foretrain::ptx {

constexpr unsigned kMaxTensorRank = 3;
constexpr std::uint32_t kTensorMapMark = 0x7e4504a9;
constexpr unsigned kBoxRowBytes = 128;

struct alignas(64) TensorMap {
  std::uint32_t mark;
  std::uint32_t rank;
  std::uint64_t address;
  std::uint64_t sizes[kMaxTensorRank];    // elements, innermost first
  std::uint64_t strides[kMaxTensorRank];  // bytes between neighbours of a dimension
  std::uint32_t box[kMaxTensorRank];      // elements
};
static_assert(sizeof(TensorMap) == 128);

}  // namespace foretrain::ptx
