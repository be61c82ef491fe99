// Sees the ops of a rank end on an asynchronous device: one thread a rank asks for the events
// behind them, tells who waits, and records what they took. Leaves out what they are given by:
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
  // `lanes`: those of the rank, which outlive this.
  static Result<std::unique_ptr<Completion>> Make(RankRun& rank, std::vector<DeviceLane*> lanes);

  // Until all lanes are over. Errors: kIo, the device failed, with the op at which; kTimeout, an op
  // does not end; kAborted. After one it is told to the run, and the thread stays until the device
  // has done what it was given, which may write to the rank's memory.
  Result<void> Run();

  // A lane was given an op, or closed: from any thread.
  void Wake() { gate_.Wake(); }

 private:
  // An op that has ended, or whose buffers are born while it runs.
  struct Seen {
    std::int64_t time_ns = 0;
    bool ended = false;
    bool inside = false;  // of a graph, behind its first op
    std::int32_t op = 0;
    std::int64_t round = 0;
    bool left_out = false;
    Span span;
  };

  Completion(RankRun& rank, std::vector<DeviceLane*> lanes, RunClock& clock, RunControl& control);

  // Notes what has happened on a lane since it was last asked. Errors: the device's.
  Result<void> Look(DeviceLane& lane);
  Result<void> See(const LaneEntry& entry);  // that it has started
  // What was seen of op `sequence` of a lane. Of a graph's ops the first one has all the time.
  Result<Seen> Take(DeviceLane& lane, std::int64_t sequence, std::int64_t now_ns) const;
  // Tells of what was seen, in order of time.
  void Tell();
  bool IsIdle() const;
  Result<void> Watch();
  void WaitForDevice();
  // The op that the device is at: of those not ended, the one that started first.
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
