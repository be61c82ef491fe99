#include "runtime/caching_allocator.h"

#include <algorithm>
#include <string>

#include "base/checked.h"
#include "base/units.h"

namespace foretrain {
namespace {

// Sizes are rounded so that requests that differ a little share blocks: 512 bytes, from 1 MiB on
// 2 MiB.
std::int64_t Rounded(std::int64_t bytes) {
  const std::int64_t grain = bytes < kMiB ? 512 : 2 * kMiB;
  return CeilDiv(bytes, grain) * grain;
}

}  // namespace

Result<CachingAllocator::Block> CachingAllocator::Allocate(std::int64_t bytes) {
  FT_CHECK(bytes >= 0);
  const std::lock_guard<std::mutex> lock(mutex_);
  ++statistics_.requests;
  if (bytes == 0) return Block();
  FT_ASSIGN(DeviceMemory memory, Take(Rounded(bytes)));
  statistics_.live_bytes += memory.bytes();
  statistics_.peak_bytes = std::max(statistics_.peak_bytes, statistics_.live_bytes);
  return Block(this, std::move(memory));
}

Result<DeviceMemory> CachingAllocator::Take(std::int64_t bytes) {
  const auto found = cached_.lower_bound(bytes);
  if (found != cached_.end() && found->first <= 2 * bytes) {
    DeviceMemory memory = std::move(found->second);
    cached_.erase(found);
    statistics_.cached_bytes -= memory.bytes();
    ++statistics_.hits;
    return memory;
  }
  const auto over = [&] {
    return limit_bytes_ > 0 &&
           statistics_.live_bytes + statistics_.cached_bytes + bytes > limit_bytes_;
  };
  while (over() && !cached_.empty()) {
    const auto largest = std::prev(cached_.end());
    statistics_.cached_bytes -= largest->first;
    cached_.erase(largest);
  }
  if (over()) {
    return Fail(ErrorCode::kResourceExhausted,
                "asked " + FormatBytes(bytes) + " outside the program, live " +
                    FormatBytes(statistics_.live_bytes) + ", limit " + FormatBytes(limit_bytes_));
  }
  auto memory = DeviceMemory::Make(api_, device_, bytes);
  if (!memory.has_value() && !cached_.empty()) {
    cached_.clear();
    statistics_.cached_bytes = 0;
    memory = DeviceMemory::Make(api_, device_, bytes);
  }
  if (!memory.has_value()) {
    return Fail(memory.error().code, memory.error().message + " (outside the program, live " +
                                         FormatBytes(statistics_.live_bytes) + ")");
  }
  return memory;
}

void CachingAllocator::GiveBack(DeviceMemory memory) {
  const std::lock_guard<std::mutex> lock(mutex_);
  statistics_.live_bytes -= memory.bytes();
  statistics_.cached_bytes += memory.bytes();
  const std::int64_t bytes = memory.bytes();
  cached_.emplace(bytes, std::move(memory));
}

void CachingAllocator::Trim() {
  const std::lock_guard<std::mutex> lock(mutex_);
  cached_.clear();
  statistics_.cached_bytes = 0;
}

AllocatorStatistics CachingAllocator::Statistics() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return statistics_;
}

}  // namespace foretrain
