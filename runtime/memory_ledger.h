// What one rank's program had live when: bytes by category and space as ops start and end. Leaves
// out the process (resident set) and memory outside the program.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "sim/program/program.h"
#include "traces/timeline.h"

namespace foretrain {

// Safe from the threads of the rank. One change is a lock that is seldom contended and a few
// additions, about 40 ns.
class MemoryLedger {
 public:
  // Persistent buffers are live from time 0 on. Where it does not record, it counts bytes and peaks
  // but makes no samples.
  explicit MemoryLedger(const RankProgram& rank, bool records = true);

  // Makes samples from `time_ns` on, the first of all that is live then, or makes none any more.
  void Record(bool records, std::int64_t time_ns);

  // The buffers became live (sign 1) or dead (sign -1) at `time_ns`, which is taken for the time of
  // the newest change before where it is less: samples are in order.
  void Change(std::int64_t time_ns, std::span<const std::int32_t> buffers, int sign);

  // Moves the samples so far to the end of `out`.
  void Drain(std::vector<MemorySample>& out);

  // Largest sum over the categories of a space so far.
  std::int64_t Peak(Space space) const;

 private:
  void AddSample(std::size_t space, std::size_t category);  // mutex_ held
  void AddLive();                                           // a sample of each; mutex_ held

  const RankProgram& rank_;
  mutable std::mutex mutex_;
  std::int64_t time_ns_ = 0;                                                  // guarded by mutex_
  std::array<std::array<std::int64_t, kCategoryCount>, kSpaceCount> live_{};  // guarded by mutex_
  std::array<std::int64_t, kSpaceCount> total_{};                             // guarded by mutex_
  std::array<std::int64_t, kSpaceCount> peak_{};                              // guarded by mutex_
  std::vector<MemorySample> samples_;                                         // guarded by mutex_
  bool records_;                                                             // guarded by mutex_
};

}  // namespace foretrain
