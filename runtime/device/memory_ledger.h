// Live bytes of one rank's program by category and space, as ops start and end. Memory of the
// process: runtime/device/resident_memory.h.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "sim/program/ir/program.h"
#include "traces/timeline.h"

namespace foretrain {

// Safe from the rank's threads. A change takes a lock that is seldom contended and a few additions,
// about 40 ns.
class MemoryLedger {
 public:
  // Persistent buffers are live from time 0 on. If `records` is false, bytes and peaks are counted
  // but no samples are made.
  explicit MemoryLedger(const RankProgram& rank, bool records = true);

  // Starts making samples at `time_ns`, first of everything live then, or stops.
  void Record(bool records, std::int64_t time_ns);

  // The buffers became live (sign 1) or dead (sign -1) at `time_ns`. A time before the newest
  // change is moved to it, so that samples stay in order.
  void Change(std::int64_t time_ns, std::span<const std::int32_t> buffers, int sign);

  // Appends the samples so far to `out`.
  void Drain(std::vector<MemorySample>& out);

  // Maximum sum over a space's categories so far.
  std::int64_t Peak(Space space) const;

 private:
  void AddSample(std::size_t space, std::size_t category);  // mutex_ held
  void AddLive();  // a sample of each category; mutex_ held

  const RankProgram& rank_;
  mutable std::mutex mutex_;
  std::int64_t time_ns_ = 0;                                                  // guarded by mutex_
  std::array<std::array<std::int64_t, kCategoryCount>, kSpaceCount> live_{};  // guarded by mutex_
  std::array<std::int64_t, kSpaceCount> total_{};                             // guarded by mutex_
  std::array<std::int64_t, kSpaceCount> peak_{};                              // guarded by mutex_
  std::vector<MemorySample> samples_;                                         // guarded by mutex_
  bool records_;                                                              // guarded by mutex_
};

}  // namespace foretrain
