// What a caching allocator holds of a device's memory while it serves requests: PyTorch's, by its
// rules [1]. Leaves out streams (a block is free once it is freed; who frees late says so) and
// expandable segments.
//
// [1] pytorch/c10/cuda/CUDACachingAllocator.cpp, 1.8 to 2.6: sizes are multiples of 512 bytes; up
// to 1 MiB come from segments of 2 MiB, up to 10 MiB from segments of 20 MiB, larger ones from
// segments of their own, multiples of 2 MiB; the smallest free block that is large enough is taken,
// and split where more than 512 bytes, or of large ones more than 1 MiB, are left; free neighbours
// of a segment join. Where the device has no room, segments that are free as a whole are given back.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace foretrain {

class CachingAllocatorModel {
 public:
  // `capacity`: of the device for segments; 0: any.
  explicit CachingAllocatorModel(std::int64_t capacity = 0) : capacity_(capacity) {}

  // A block of at least `bytes` > 0; its number, for Free. O(log blocks).
  int Allocate(std::int64_t bytes);
  void Free(int block);

  std::int64_t allocated_bytes() const { return allocated_; }
  std::int64_t reserved_bytes() const { return reserved_; }
  std::int64_t peak_allocated_bytes() const { return peak_allocated_; }
  std::int64_t peak_reserved_bytes() const { return peak_reserved_; }

 private:
  struct Block {
    std::int64_t bytes = 0;
    int before = -1, after = -1;  // in its segment
    bool small = false, free = false;
  };
  using FreeBlocks = std::set<std::pair<std::int64_t, int>>;  // by bytes, then number

  int NewBlock();
  int NewSegment(std::int64_t bytes, bool small);
  void ReleaseWholeSegments();
  void Take(int block, std::int64_t bytes);
  // Joins the free block `other`, a neighbour, to `block`.
  void Join(int block, int other);
  FreeBlocks& FreeOf(bool small) { return free_[small ? 0 : 1]; }
  Block& At(int block) { return blocks_[static_cast<std::size_t>(block)]; }

  std::int64_t capacity_;
  std::int64_t allocated_ = 0, reserved_ = 0, peak_allocated_ = 0, peak_reserved_ = 0;
  std::vector<Block> blocks_;
  std::vector<int> unused_;  // numbers of blocks that are no more
  std::array<FreeBlocks, 2> free_;
};

}  // namespace foretrain
