// Where the memory that a test got from `new` begins and ends, so that what a pointer points into
// can be copied to a device. The executable's operators new and delete note it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace foretrain::test {

struct Range {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;  // 0: there is none
};

// The allocation that `address` lies in, or stands right behind. Safe from any thread.
Range AllocationOf(std::uintptr_t address);

// The caller's stack from `address` up, at most `most` bytes; none where it lies elsewhere.
Range StackFrom(std::uintptr_t address, std::size_t most);

// Whether the process has memory there at all. Reads /proc/self/maps.
bool IsMapped(std::uintptr_t address);

}  // namespace foretrain::test
