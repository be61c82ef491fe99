// Options that say which steps and ranks of a training are recorded, and how often hardware
// counters are sampled. Leaves out how much of a step is recorded (--capture).
#pragma once

#include <cstdint>
#include <string>

#include "app/cli/arguments.h"
#include "base/result.h"
#include "profiler/capture.h"

namespace foretrain {

// --profile-step-start, --profile-step-end, --sample-counters and --profile-ranks
class CaptureFlags {
 public:
  void Declare(Arguments& arguments, std::int64_t& counters_interval_ns);
  // The steps and ranks to record of a run of `steps` steps on `world` ranks. Errors:
  // kInvalidArgument, naming the option: no step of the run, a rank outside [0, world), or a window
  // although `level` records nothing.
  Result<CaptureWindow> Window(CaptureLevel level, std::int64_t steps, int world) const;

 private:
  std::string first_step_, end_step_, ranks_;  // empty: all
};

}  // namespace foretrain
