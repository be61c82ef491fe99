// Models the device memory that PyTorch's caching allocator holds while it serves requests, by the
// allocator's own rules [1]. Leaves out expandable segments and streams: a block is free once it is
// freed, so callers free late what another stream still uses.
//
// [1] pytorch/c10/cuda/CUDACachingAllocator.cpp, 1.8 to 2.6. Sizes are multiples of 512 bytes.
// Requests up to 1 MiB come from segments of 2 MiB, up to 10 MiB from segments of 20 MiB. Larger
// ones get a segment of their own, a multiple of 2 MiB. The smallest free block that is large
// enough is taken. It is split if more than 512 bytes remain (large blocks: more than 1 MiB). Free
// neighbours in a segment join. If the device has no room, segments that are wholly free are given
// back.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace foretrain {

class CachingAllocatorModel {
 public:
  // `capacity`: bytes of the device for segments; 0: no limit.
  explicit CachingAllocatorModel(std::int64_t capacity = 0) : capacity_(capacity) {}

  // Takes a block of at least `bytes` > 0 and returns its number, for Free. O(log blocks).
  int Allocate(std::int64_t bytes);
  void Free(int block);

  std::int64_t allocated_bytes() const { return allocated_; }
  std::int64_t reserved_bytes() const { return reserved_; }
  std::int64_t peak_allocated_bytes() const { return peak_allocated_; }
  std::int64_t peak_reserved_bytes() const { return peak_reserved_; }

 private:
  struct Block {
    std::int64_t bytes = 0;
    int before = -1, after = -1;  // neighbours in its segment; -1: none
    bool small = false, free = false;
  };
  using FreeBlocks = std::set<std::pair<std::int64_t, int>>;  // by bytes, then number

  int NewBlock();
  int NewSegment(std::int64_t bytes, bool small);
  void ReleaseWholeSegments();
  void Take(int block, std::int64_t bytes);
  // Joins `other`, a neighbour of `block`, to it if `other` is free.
  void Join(int block, int other);
  FreeBlocks& FreeOf(bool small) { return free_[small ? 0 : 1]; }
  Block& At(int block) { return blocks_[static_cast<std::size_t>(block)]; }

  std::int64_t capacity_;
  std::int64_t allocated_ = 0, reserved_ = 0, peak_allocated_ = 0, peak_reserved_ = 0;
  std::vector<Block> blocks_;
  std::vector<int> unused_;  // numbers of joined or returned blocks, to be used again
  std::array<FreeBlocks, 2> free_;
};

}  // namespace foretrain
