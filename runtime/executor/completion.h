// Detects the end of a rank's ops on an asynchronous device. One thread a rank polls the events
// recorded after them, wakes waiters and records times. Work is given by
// runtime/executor/worker_device.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "profiler/span_recorder.h"
#include "runtime/executor/device_clock.h"
#include "runtime/executor/device_lane.h"
#include "runtime/executor/rank_run.h"

namespace foretrain {

class Completion {
 public:
  // `lanes`: the rank's lanes, which outlive this.
  static Result<std::unique_ptr<Completion>> Make(RankRun& rank, std::vector<DeviceLane*> lanes);

  // Runs until all lanes are over. Errors: kIo, the device failed (names the op); kTimeout, an op
  // does not end; kAborted. After an error, which is reported to the run, the thread stays until
  // the device is idle, since its work may write the rank's memory.
  Result<void> Run();

  // An op was added to a lane, or a lane closed. Safe from any thread.
  void Wake() { gate_.Wake(); }

 private:
  // An op that has ended, or one that has started, so that its buffers are live.
  struct Seen {
    std::int64_t time_ns = 0;
    bool ended = false;
    bool inside = false;  // inside a graph, after its first op
    std::int32_t op = 0;
    std::int64_t round = 0;
    bool left_out = false;
    Span span;
  };

  Completion(RankRun& rank, std::vector<DeviceLane*> lanes, RunClock& clock, RunControl& control);

  // Collects what happened on a lane since the last call. Errors: the device's.
  Result<void> Look(DeviceLane& lane);
  Result<void> See(const LaneEntry& entry);  // notes that it has started
  // The end of op `sequence` of a lane. Within a graph, the first op gets all the time.
  Result<Seen> Take(DeviceLane& lane, std::int64_t sequence, std::int64_t now_ns) const;
  // Reports what was seen, in order of time.
  void Tell();
  bool IsIdle() const;
  Result<void> Watch();
  void WaitForDevice();
  // Error text for the op that the device is at: among those not ended, the one that started first.
  Error Failed(ErrorCode code, const std::string& what);

  RankRun& rank_;
  std::vector<DeviceLane*> lanes_;
  DeviceClock clock_;
  SpanLane* spans_ = nullptr;
  std::vector<Seen> seen_;
  std::vector<std::int32_t> changed_;
  bool timed_ = false;
  Gate gate_;
};

}  // namespace foretrain
