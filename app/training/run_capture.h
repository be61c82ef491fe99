// A device's own recording of a run: opens it, and stores its totals and problems. Leaves out
// spans.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "profiler/capture_session.h"
#include "profiler/gpu_monitor.h"
#include "runtime/run/local_rank.h"
#include "runtime/run/run_clock.h"
#include "sim/program/ir/program.h"
#include "traces/store.h"

namespace foretrain {

// Opens the device's recording; null if the device has none. Call it before any other use of the
// device. If there will be no records, stderr says why. `program` and `clock` must outlive it.
//
//   local     ranks of this process; empty: all of the program's
//   counters  hardware counters to sample, by CountersOf
std::unique_ptr<CaptureSession> OpenCapture(const FtDeviceApi& device, const Program& program,
                                            const std::vector<LocalRank>& local,
                                            const RunClock& clock, CaptureLevel level,
                                            const CaptureWindow& window, CounterOptions counters);

// Prints on stderr those sentences of Troubles() that are not `known`.
void PrintTroubles(std::span<const std::string> troubles, std::span<const std::string> known);

// Hardware counters of the GPUs of the recorded ranks in `local`; the series of a GPU belongs to
// the first of them. `interval_ns`: 0: none. `local` empty: all ranks are on GPU 0.
CounterOptions CountersOf(const std::vector<LocalRank>& local, const CaptureWindow& window,
                          std::int64_t interval_ns, std::function<void(std::vector<Counter>)> take);

// Starts a thread that reads the GPUs' state, activity and errors and calls `take`, until the
// monitor is stopped or destroyed. XIDs and uncorrected memory errors are also told on stderr at
// once. Null if the device is no GPU, or, with a line on stderr, if the readings are not available.
// The series of a GPU belongs to the first rank on it. `local`: ranks of this process; empty: all
// on GPU 0.
std::unique_ptr<GpuMonitor> StartMonitor(const FtDeviceApi& device,
                                         const std::vector<LocalRank>& local, const RunClock& clock,
                                         std::function<void(std::vector<Counter>)> take);

// The report of each process's recording, by the process's first rank.
using CaptureReports = std::map<int, CaptureReport>;

// Adds to the run the totals, metrics and kernels summed over processes, each process's clock
// readings, and a note for each problem: "ranks 1, 3: ...", or without ranks if all report the
// same. `capability`: of the GPUs, as in KernelTable; 0: unknown. Errors: those of writing.
Result<void> StoreCapture(RunRecorder& recorder, const CaptureReports& reports, int capability);

}  // namespace foretrain
