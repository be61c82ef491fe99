#include "sim/memory/caching_allocator_model.h"

#include <algorithm>

#include "base/result.h"
#include "base/units.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMiB = kGiB / 1024;
constexpr std::int64_t kUnit = 512;
constexpr std::int64_t kSmall = kMiB;  // largest request that a small segment serves
constexpr std::int64_t kSmallSegment = 2 * kMiB;
constexpr std::int64_t kSharedSegment = 20 * kMiB;  // for large requests below kOwnSegment
constexpr std::int64_t kOwnSegment = 10 * kMiB;     // smallest request with a segment of its own
constexpr std::int64_t kSegmentUnit = 2 * kMiB;

std::int64_t RoundUp(std::int64_t bytes, std::int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

std::int64_t SegmentFor(std::int64_t bytes) {
  if (bytes <= kSmall) return kSmallSegment;
  return bytes < kOwnSegment ? kSharedSegment : RoundUp(bytes, kSegmentUnit);
}

}  // namespace

// Numbers of dead blocks are used again, so memory is bounded by the blocks that live at once.
int CachingAllocatorModel::NewBlock() {
  if (unused_.empty()) {
    blocks_.emplace_back();
    return static_cast<int>(blocks_.size()) - 1;
  }
  const int block = unused_.back();
  unused_.pop_back();
  At(block) = {};
  return block;
}

// Gives back every segment that is one free block. O(free blocks), and rare: only when the device
// is full.
void CachingAllocatorModel::ReleaseWholeSegments() {
  for (FreeBlocks& blocks : free_) {
    for (auto it = blocks.begin(); it != blocks.end();) {
      const Block& block = At(it->second);
      if (block.before >= 0 || block.after >= 0) {
        ++it;
        continue;
      }
      reserved_ -= block.bytes;
      unused_.push_back(it->second);
      it = blocks.erase(it);
    }
  }
}

// Exceeding the capacity is no error here: the model reports the peak, and the caller compares.
int CachingAllocatorModel::NewSegment(std::int64_t bytes, bool small) {
  if (capacity_ > 0 && reserved_ + bytes > capacity_) ReleaseWholeSegments();
  const int block = NewBlock();
  At(block).bytes = bytes;
  At(block).small = small;
  reserved_ += bytes;
  peak_reserved_ = std::max(peak_reserved_, reserved_);
  return block;
}

// Takes the first `bytes` of a block that is in no free list. A remainder that is large enough
// becomes a free block; else it stays with the block as rounding.
void CachingAllocatorModel::Take(int block, std::int64_t bytes) {
  const std::int64_t left = At(block).bytes - bytes;
  const bool small = At(block).small;
  const bool splits = small ? left >= kUnit : left > kSmall;
  if (splits) {
    const int rest = NewBlock();
    At(rest) = {left, block, At(block).after, small, true};
    if (At(rest).after >= 0) At(At(rest).after).before = rest;
    At(block).after = rest;
    At(block).bytes = bytes;
    FreeOf(small).emplace(left, rest);
  }
  At(block).free = false;
  allocated_ += At(block).bytes;
  peak_allocated_ = std::max(peak_allocated_, allocated_);
}

// Best fit: the free lists are ordered by size, then by number, so the choice is deterministic.
int CachingAllocatorModel::Allocate(std::int64_t bytes) {
  FT_CHECK(bytes > 0);
  bytes = RoundUp(bytes, kUnit);
  const bool small = bytes <= kSmall;
  FreeBlocks& blocks = FreeOf(small);
  const auto found = blocks.lower_bound({bytes, 0});
  int block = -1;
  if (found != blocks.end()) {
    block = found->second;
    blocks.erase(found);
  } else {
    block = NewSegment(SegmentFor(bytes), small);
  }
  Take(block, bytes);
  return block;
}

void CachingAllocatorModel::Join(int block, int other) {
  if (other < 0 || !At(other).free) return;
  FreeOf(At(other).small).erase({At(other).bytes, other});
  At(block).bytes += At(other).bytes;
  if (At(block).before == other) {
    At(block).before = At(other).before;
    if (At(block).before >= 0) At(At(block).before).after = block;
  } else {
    At(block).after = At(other).after;
    if (At(block).after >= 0) At(At(block).after).before = block;
  }
  unused_.push_back(other);
}

// Both neighbours join, so no two free blocks of a segment are ever adjacent.
void CachingAllocatorModel::Free(int block) {
  FT_CHECK(block >= 0 && block < static_cast<int>(blocks_.size()) && !At(block).free);
  allocated_ -= At(block).bytes;
  Join(block, At(block).before);
  Join(block, At(block).after);
  At(block).free = true;
  FreeOf(At(block).small).emplace(At(block).bytes, block);
}

}  // namespace foretrain
