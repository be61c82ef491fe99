// How a device's own recording of a run went. Leaves out the recording
// (profiler/capture_session.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "profiler/activity_join.h"
#include "profiler/clock_fit.h"

namespace foretrain {

struct CaptureReport {
  bool records = false;  // the device gave records, or would have
  std::string problem;   // why there are none, or no more: a sentence without a full stop
  ActivityCounts counts;
  std::int64_t dropped = 0;  // lost by the device's library
  std::int64_t late = 0;     // that came too late for their op
  std::int64_t outside = 0;  // of steps and ranks outside the window
  // Readings of the device's clock beside the host's; without a device's recording, those of the
  // host's beside that of rank 0's process, where it is another.
  std::vector<ClockSample> clocks;
  std::int64_t clock_error_ns = 0;  // of times against those of other ranks
  std::map<std::string, KernelTotal> kernels;
};

}  // namespace foretrain
