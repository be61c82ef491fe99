// What it takes a host to launch a device's graphs. Leaves out what the device does in them.
#pragma once

#include <functional>
#include <optional>

#include "base/device_api.h"
#include "base/result.h"
#include "runtime/run_clock.h"

namespace foretrain {

struct GraphLaunches {
  double launch_s = 0;  // of a graph, beside
  double op_s = 0;      // of each op in it
};

// Times the launching of two graphs of kernels that do next to nothing, of kFewOps and kManyOps:
// medians of kLaunches, the device idle before each, and the line through both. None of a device
// that has no graphs or cannot make these. Errors: the device's; kAborted when `stop` says so.
inline constexpr int kFewOps = 8;
inline constexpr int kManyOps = 128;
inline constexpr int kLaunches = 101;
Result<std::optional<GraphLaunches>> TimeGraphLaunches(const FtDeviceApi& api, int device,
                                                       const RunClock& clock,
                                                       const std::function<bool()>& stop = nullptr);

}  // namespace foretrain
