// Records where memory from `new` begins and ends, so that a pointer's target can be copied to a
// device. The executable's operators new and delete record it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace foretrain::test {

struct Range {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;  // 0: none found
};

// The allocation that contains `address`, or that ends right before it. Safe from any thread.
Range AllocationOf(std::uintptr_t address);

// The caller's stack from `address` up, at most `most` bytes. Empty if `address` is not on the
// stack.
Range StackFrom(std::uintptr_t address, std::size_t most);

// Whether the process has memory at `address`. Reads /proc/self/maps.
bool IsMapped(std::uintptr_t address);

}  // namespace foretrain::test
