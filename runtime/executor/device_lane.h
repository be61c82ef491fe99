// Ops that one queue of an asynchronous device was given and whose end was not yet seen, in order.
// Writer: runtime/executor/worker_device.cc; reader: runtime/executor/completion.h.
//
//   queue's thread ── Next, Push ──► [op][op][op] ──► completion thread: Pop
//                                      each with the event that the device reaches after it
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/device_api.h"
#include "base/result.h"
#include "runtime/device/device.h"
#include "traces/timeline.h"

namespace foretrain {

struct LaneEntry {
  std::int32_t op = 0;  // op number in the step
  std::int64_t round = 0;
  bool left_out = false;  // nothing was given to the device
  bool has_end = false;   // `end` was recorded after it; else it ends with a later op
  bool waits = false;     // for peers: `arrived` was recorded before the wait, `start` after it
  bool born = false;      // its buffers are known to be live; used by the reader
  // Number of ops of the same graph before and after it. `start` is the first op's, `end` the last
  // one's.
  std::int32_t before = 0;
  std::int32_t behind = 0;
  Span span;  // without its times
  DeviceEvent arrived, start, end;
};

// One writer and one reader; EndOf is safe from any thread.
class DeviceLane {
 public:
  // At most `capacity` ops are in flight. `timed`: events have times.
  DeviceLane(const FtDeviceApi& api, int device, int capacity, bool timed)
      : api_(api), device_(device), timed_(timed), entries_(static_cast<std::size_t>(capacity)) {}

  // For the writer: the entry of its next op, with its events created. Push then shows it to the
  // reader.
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
  // No more ops will come.
  void Close() { closed_.store(true); }

  // For the reader:
  LaneEntry& At(std::int64_t sequence) {
    return entries_[static_cast<std::size_t>(sequence) % entries_.size()];
  }
  std::int64_t popped() const { return popped_; }
  void Pop() { ++popped_; }
  bool IsOver() const { return closed_.load() && popped_ == pushed(); }

  std::int64_t pushed() const { return pushed_.load(); }
  bool timed() const { return timed_; }
  // Event recorded after op `sequence` of the lane, or after a later op.
  const DeviceEvent& EndOf(std::int64_t sequence) { return At(sequence).end; }

  // Resets the lane between runs.
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
