#include "runtime/device/memory_ledger.h"

#include <algorithm>
#include <bitset>

namespace foretrain {

// Persistent buffers are live for the whole run, so they form the starting state.
MemoryLedger::MemoryLedger(const RankProgram& rank, bool records) : rank_(rank), records_(records) {
  for (const Buffer& buffer : rank.buffers) {
    if (!buffer.persistent) continue;
    const auto space = static_cast<std::size_t>(buffer.space);
    live_[space][static_cast<std::size_t>(buffer.category)] += buffer.bytes;
    total_[space] += buffer.bytes;
  }
  peak_ = total_;
  if (records_) AddLive();
}

// Bytes and peaks are counted all the time, so samples can begin at any step with the right values.
void MemoryLedger::Record(bool records, std::int64_t time_ns) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (records == records_) return;
  records_ = records;
  time_ns_ = std::max(time_ns_, time_ns);
  if (records_) AddLive();
}

void MemoryLedger::AddLive() {
  for (std::size_t space = 0; space < kSpaceCount; ++space) {
    for (std::size_t category = 0; category < kCategoryCount; ++category) {
      if (live_[space][category] > 0) AddSample(space, category);
    }
  }
}

// Times are made monotonic under the lock, since threads may report slightly out of order. One
// sample for each space and category that changed, whatever the number of buffers.
void MemoryLedger::Change(std::int64_t time_ns, std::span<const std::int32_t> buffers, int sign) {
  if (buffers.empty()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  time_ns_ = std::max(time_ns_, time_ns);
  std::bitset<std::size_t{kSpaceCount} * kCategoryCount> changed;
  for (const std::int32_t number : buffers) {
    const Buffer& buffer = rank_.buffers[static_cast<std::size_t>(number)];
    const auto space = static_cast<std::size_t>(buffer.space);
    const auto category = static_cast<std::size_t>(buffer.category);
    live_[space][category] += sign * buffer.bytes;
    total_[space] += sign * buffer.bytes;
    changed.set(space * kCategoryCount + category);
  }
  for (std::size_t space = 0; space < kSpaceCount; ++space) {
    peak_[space] = std::max(peak_[space], total_[space]);
    for (std::size_t category = 0; category < kCategoryCount; ++category) {
      if (records_ && changed.test(space * kCategoryCount + category)) AddSample(space, category);
    }
  }
}

void MemoryLedger::AddSample(std::size_t space, std::size_t category) {
  samples_.push_back({.time_ns = time_ns_,
                      .bytes = live_[space][category],
                      .rank = static_cast<std::int16_t>(rank_.rank),
                      .category = static_cast<Category>(category),
                      .space = static_cast<Space>(space)});
}

void MemoryLedger::Drain(std::vector<MemorySample>& out) {
  const std::lock_guard<std::mutex> lock(mutex_);
  out.insert(out.end(), samples_.begin(), samples_.end());
  samples_.clear();  // keeps its capacity
}

std::int64_t MemoryLedger::Peak(Space space) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return peak_[static_cast<std::size_t>(space)];
}

}  // namespace foretrain
