// Measures the host's cost of launching a device's graphs. The time the device spends in them is
// not included.
#pragma once

#include <functional>
#include <optional>

#include "base/device_api.h"
#include "base/result.h"
#include "runtime/run/run_clock.h"

namespace foretrain {

struct GraphLaunches {
  double launch_s = 0;  // of a graph, without its ops
  double op_s = 0;      // added by each op in the graph
};

// Times launches of two graphs of near-empty kernels, with kFewOps and kManyOps. Each time is the
// median of kLaunches with the device idle before; the line through both gives the two costs.
// nullopt if the device has no graphs or cannot make these. Errors: the device's; kAborted if
// `stop` returns true.
inline constexpr int kFewOps = 8;
inline constexpr int kManyOps = 128;
inline constexpr int kLaunches = 101;
Result<std::optional<GraphLaunches>> TimeGraphLaunches(const FtDeviceApi& api, int device,
                                                       const RunClock& clock,
                                                       const std::function<bool()>& stop = nullptr);

}  // namespace foretrain
