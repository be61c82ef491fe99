// Device memory outside the program: evaluation, library workspaces, overflow of data-dependent
// sizes. Keeps freed blocks for the next request. Leaves out everything inside a step, which has
// its place in the arena (runtime/arena.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "base/device_api.h"
#include "base/result.h"
#include "runtime/device.h"

namespace foretrain {

struct AllocatorStatistics {
  std::int64_t live_bytes = 0;    // asked for and not given back
  std::int64_t cached_bytes = 0;  // held for later
  std::int64_t peak_bytes = 0;    // largest live_bytes so far
  std::int64_t requests = 0;
  std::int64_t hits = 0;  // requests that a cached block served
};

// Safe from any thread. Blocks must be given back before the allocator ends.
class CachingAllocator {
 public:
  class Block;

  // `limit_bytes`: of live and cached bytes together; 0: none.
  CachingAllocator(const FtDeviceApi& api, int device, std::int64_t limit_bytes = 0)
      : api_(api), device_(device), limit_bytes_(limit_bytes) {}

  // At least `bytes`, >= 0, of undefined content. A cached block serves when it is at most twice
  // the size; when memory is short, cached blocks are released first.
  // Errors: kResourceExhausted, with asked, live and limit.
  Result<Block> Allocate(std::int64_t bytes);

  // Gives all cached blocks back to the device.
  void Trim();
  AllocatorStatistics Statistics() const;

 private:
  void GiveBack(DeviceMemory memory);
  Result<DeviceMemory> Take(std::int64_t bytes);  // mutex_ held

  const FtDeviceApi& api_;
  const int device_;
  const std::int64_t limit_bytes_;
  mutable std::mutex mutex_;
  std::multimap<std::int64_t, DeviceMemory> cached_;  // by size; guarded by mutex_
  AllocatorStatistics statistics_;                    // guarded by mutex_
};

// Memory that goes back to its allocator with this.
class CachingAllocator::Block {
 public:
  Block() = default;
  Block(Block&& other) noexcept { *this = std::move(other); }
  Block& operator=(Block&& other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~Block() {
    if (owner_ != nullptr) owner_->GiveBack(std::move(memory_));
  }
  std::byte* data() const { return memory_.data(); }
  std::int64_t bytes() const { return memory_.bytes(); }

 private:
  friend class CachingAllocator;
  Block(CachingAllocator* owner, DeviceMemory memory) : owner_(owner), memory_(std::move(memory)) {}
  CachingAllocator* owner_ = nullptr;
  DeviceMemory memory_;
};

}  // namespace foretrain
