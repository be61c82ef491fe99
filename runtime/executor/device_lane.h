// What one queue of an asynchronous device was given and has not been seen to end, in its order.
// Leaves out who gives (runtime/executor/worker_device.cc) and who looks
// (runtime/executor/completion.h).
//
//   queue's thread ── Next, Push ──► [op][op][op] ──► completion thread: Pop
//                                      each with the event that the device reaches behind it
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/device_api.h"
#include "base/result.h"
#include "runtime/device.h"
#include "traces/timeline.h"

namespace foretrain {

struct LaneEntry {
  std::int32_t op = 0;  // number in the step
  std::int64_t round = 0;
  bool left_out = false;  // nothing was given to the device
  bool has_end = false;   // `end` was recorded behind it; else it ends with a later one
  bool waits = false;     // for peers: `arrived` was recorded before them, `start` behind
  bool born = false;      // its buffers are known to be live: the reader's
  // Ops of the same graph on the lane: `start` is the first one's, `end` the last one's.
  std::int32_t before = 0;
  std::int32_t behind = 0;
  Span span;  // but its times
  DeviceEvent arrived, start, end;
};

// One writer, one reader; End from any thread.
class DeviceLane {
 public:
  // At most `capacity` ops are under way at once. `timed`: events have times.
  DeviceLane(const FtDeviceApi& api, int device, int capacity, bool timed)
      : api_(api), device_(device), timed_(timed), entries_(static_cast<std::size_t>(capacity)) {}

  // The writer's: room for its next op, with events that were made; then Push, which shows it.
  Result<LaneEntry*> Next() {
    LaneEntry& entry = At(pushed());
    if (entry.end.get() == nullptr) {
      FT_ASSIGN(entry.end, DeviceEvent::Make(api_, device_, timed_));
      if (timed_) {
        FT_ASSIGN(entry.start, DeviceEvent::Make(api_, device_, timed_));
        FT_ASSIGN(entry.arrived, DeviceEvent::Make(api_, device_, timed_));
      }
    }
    entry.left_out = entry.has_end = entry.waits = entry.born = false;
    entry.before = entry.behind = 0;
    return &entry;
  }
  void Push() { pushed_.store(pushed() + 1); }
  // No more will come.
  void Close() { closed_.store(true); }

  // The reader's.
  LaneEntry& At(std::int64_t sequence) {
    return entries_[static_cast<std::size_t>(sequence) % entries_.size()];
  }
  std::int64_t popped() const { return popped_; }
  void Pop() { ++popped_; }
  bool IsOver() const { return closed_.load() && popped_ == pushed(); }

  std::int64_t pushed() const { return pushed_.load(); }
  bool timed() const { return timed_; }
  // Behind op `sequence` of the lane, or behind one that came later.
  const DeviceEvent& EndOf(std::int64_t sequence) { return At(sequence).end; }

  // Between runs.
  void Open() {
    pushed_.store(0);
    popped_ = 0;
    closed_.store(false);
  }

 private:
  const FtDeviceApi& api_;
  const int device_;
  const bool timed_;
  std::vector<LaneEntry> entries_;
  std::atomic<std::int64_t> pushed_{0};
  std::atomic<bool> closed_{false};
  std::int64_t popped_ = 0;
};

}  // namespace foretrain
