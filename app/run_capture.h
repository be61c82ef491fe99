// A device's own recording of a run: opening it, and how it went, for the store. Leaves out spans.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "profiler/capture_session.h"
#include "profiler/gpu_monitor.h"
#include "runtime/local_rank.h"
#include "runtime/run_clock.h"
#include "sim/program/program.h"
#include "traces/store.h"

namespace foretrain {

// The recording of a device that has one, before anything else is asked of the device; null where
// it has none. Says on stderr why there will be no records. `program` and `clock` outlive it.
//
//   local  ranks of this process; empty: all of the program's
std::unique_ptr<CaptureSession> OpenCapture(const FtDeviceApi& device, const Program& program,
                                            const std::vector<LocalRank>& local,
                                            const RunClock& clock, CaptureLevel level,
                                            const CaptureWindow& window);

// Readings of the GPUs' clocks and power go to `take`, on a thread of their own, from here until
// the monitor is stopped or destroyed; null, with a line on stderr, where they are not to be had,
// and for a device that is no GPU. The first rank on a GPU has its series. `local`: ranks of this
// process; empty: all on GPU 0.
std::unique_ptr<GpuMonitor> StartMonitor(const FtDeviceApi& device,
                                         const std::vector<LocalRank>& local, const RunClock& clock,
                                         std::function<void(std::vector<Counter>)> take);

// How the recording of each process of a run went, by its first rank.
using CaptureReports = std::map<int, CaptureReport>;

// Adds the sums of all processes' totals, figures and kernels to the run, the clock readings of
// each, and a note of what went wrong: "ranks 1, 3: ...", without ranks where all say the same.
// Errors: those of writing.
Result<void> StoreCapture(RunRecorder& recorder, const CaptureReports& reports);

// {"schema": 1, "kernels": [{"name", "calls", "total_s"}]}, the longest first: what is attached to
// a run as "kernels".
std::string KernelsJson(const std::map<std::string, KernelTotal>& kernels);

}  // namespace foretrain
