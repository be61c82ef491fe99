// Calibrate times this machine's ops as the plans to be predicted run them, and makes a device
// profile of the times. It reads and writes no files; sim/cost uses the profile.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/device_api.h"
#include "base/result.h"
#include "runtime/executor/executor.h"
#include "runtime/run/run_clock.h"
#include "sim/config/cluster/cluster_spec.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/cost/profile/device_profile.h"

namespace foretrain {

// A plan whose ops are measured.
struct CalibrationTarget {
  ModelSpec model;
  Plan plan;
};

struct CalibrationProgress {
  std::string what;  // name of the microbenchmark that runs now
  double elapsed_s = 0;
  double left_s = 0;
  double done = 0;  // in [0, 1]
};

// Sizes of the microbenchmarks that run on GPUs besides the targets' own. Tests use smaller ones.
struct GpuSizes {
  std::int64_t max = 1 << 20;  // max scale of CommunicationGrid: 128 MiB on two ranks
  std::int64_t gemm = 1024;    // side of OverlapBenchmark's GEMMs: tenths of a millisecond each
  std::int64_t elements = std::int64_t{1} << 25;  // of OverlapBenchmark's transfer
};

struct CalibrateOptions {
  std::vector<CalibrationTarget> targets;
  ClusterSpec cluster;  // this machine; rates that are not measured are derived from it
  int device = 0;
  // Devices for several ranks, one each, and the communicator factory that joins them. Empty: all
  // ranks share `device`.
  std::vector<int> devices;
  WorldMaker world;
  GpuSizes gpu;
  double seconds = 20;                  // time budget, > 0; each op is timed at least once even so
  bool grid = true;                     // also time a range of sizes, for other plans
  bool skip_what_does_not_fit = false;  // skips targets that do not fit in memory; else an error
  NvmeOptions nvme;                     // disk to measure
  CopyCaps copy_caps;   // bandwidth caps of copies, the same as in the predicted runs
  std::string machine;  // for DeviceProfile::machine
  std::string date;     // for DeviceProfile::date
  std::function<void(const CalibrationProgress&)> progress;  // called before each run; may be null
  std::function<bool()> stop;  // asked before each run of about a second or less; may be null
};

// Measures every op of the targets, at concurrency 1 and at that of the plan.
//
// The executor runs excerpts of the compiled plans (runtime/calibrate/microbenchmark.h) with the
// queues, threads, kernel calls and collectives of a real run. Each op has its neighbours of a
// step, so caches and processors are in the same state. Excerpts take turns in rounds, so that a
// slow moment of a shared machine affects all points alike.
//
// A point's time is the median of its samples, times the stretch of a whole excerpt over its
// medians (SampleTable::Stretch). A collective's time begins at its last member's arrival. Launch,
// gap and wake come from the same recordings. The reference GEMM is measured before, halfway and
// after. On GPUs, collectives and transfers are timed between two and between all `devices`. The
// slowdown of GEMMs overlapped with an all-reduce is the profile's overlap_slowdown; overlapped
// with copies, it is noted in the profile's assumptions.
//
// Errors: those of Compile and Executor::Run; kAborted if stopped. Callbacks run on the caller's
// thread.
Result<DeviceProfile> Calibrate(const CalibrateOptions& options, const FtDeviceApi& api,
                                RunClock& clock);

}  // namespace foretrain
