// Result of a device's own recording of a run (profiler/capture_session.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/activity_join.h"
#include "profiler/clock_fit.h"

namespace foretrain {

struct CaptureReport {
  bool records = false;  // the device delivers records
  std::string problem;   // reason for missing records, a sentence without full stop; empty if none
  // Reason for missing samples of hardware counters, as `problem`; empty also if none were asked
  // for.
  std::string counters_problem;
  ActivityCounts counts;
  std::int64_t dropped = 0;  // lost by the device's library
  std::int64_t late = 0;     // arrived after their op was released
  std::int64_t outside = 0;  // of steps and ranks outside the window
  // Pairs of device and host clock. Without a device's recording: this host's clock against that of
  // rank 0's process, if that is another one.
  std::vector<ClockSample> clocks;
  std::int64_t clock_error_ns = 0;  // bound on the error of times against other ranks
  KernelTable kernels;
};

}  // namespace foretrain
