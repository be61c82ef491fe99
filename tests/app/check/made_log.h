// Logs of runs that never happened: a launch is simulated on a machine whose constants differ from
// those of a forecast, with something that slows it down. A check of the log does not know what.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace foretrain {

// Faults that slow a run down beside its plan. Each is a mechanism, not a pattern of step times.
enum class RunFault {
  kNone,
  kThrottling,  // clocks fall as the device warms up, and with them the rate of products
  kDataLoader,  // workers make batches too slowly, and a step waits for the next one
};

struct MadeRun {
  std::string options;  // "--from megatron:/path/run.sh --cluster 2x8xh100"
  RunFault fault = RunFault::kNone;
  double slower = 1.28;     // mean step with the fault, over that without
  bool has_timers = false;  // the log has the trainer's own timers
  std::uint32_t seed = 1;
};

// The trainer's lines of `steps` steps, in the format of the launch file's trainer. `step_s`: mean
// seconds of a step without warm-up. Fails the test if the options cannot be read.
struct MadeLog {
  std::string text;
  double step_s = 0;
};
MadeLog MakeLog(const MadeRun& run, int steps);

}  // namespace foretrain
