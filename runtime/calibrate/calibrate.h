// Times this machine's ops as the plans to be forecast will run them, and makes a device profile of
// the times. Leaves out files and what a profile is used for (sim/cost).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/device_api.h"
#include "base/result.h"
#include "runtime/executor.h"
#include "runtime/run_clock.h"
#include "sim/cost/device_profile.h"
#include "sim/spec/cluster_spec.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

// A plan whose ops are to be measured.
struct CalibrationTarget {
  ModelSpec model;
  Plan plan;
};

struct CalibrationProgress {
  std::string what;  // is timed now
  double elapsed_s = 0;
  double left_s = 0;
  double done = 0;  // in [0, 1]
};

// What GPUs are measured with beside the targets. Tests take smaller ones.
struct GpuSizes {
  std::int64_t most = 1 << 20;                    // of CommunicationGrid: 128 MiB of two ranks
  std::int64_t gemm = 1024;                       // of OverlapSheet: tenths of a millisecond
  std::int64_t elements = std::int64_t{1} << 25;  // likewise, on their way beside it
};

struct CalibrateOptions {
  std::vector<CalibrationTarget> targets;
  ClusterSpec cluster;  // this machine: what is not measured is derived from it
  int device = 0;
  // Devices that are a rank's each where several are measured together, with what joins them;
  // none: ranks share `device`.
  std::vector<int> devices;
  WorldMaker world;
  GpuSizes gpu;
  double seconds = 20;  // to take about; > 0. Each op is timed at least once all the same.
  bool grid = true;     // sizes around those of the targets, for other plans
  bool skip_what_does_not_fit = false;  // targets that the device has no memory for; else an error
  NvmeOptions nvme;                     // the disk to measure
  CopyCaps copy_caps;                   // of all copies, as of the runs to be forecast
  std::string machine;                  // for DeviceProfile::machine
  std::string date;                     // for DeviceProfile::date
  std::function<void(const CalibrationProgress&)> progress;  // null: none
  std::function<bool()> stop;  // asked between runs of under a second or so; may be null
};

// Measures every op of the targets at concurrency 1 and at that of their plan.
//
// Excerpts of the compiled plans (runtime/calibrate/sheet.h) are run by the executor itself: the
// same queues, threads, kernel calls and collectives as in a run, and the same neighbours, so that
// caches and processors are as in a step. Excerpts take turns in rounds, so that a slow moment of a
// shared machine touches all points alike. A point's time is the median over its samples, times
// the stretch of a whole excerpt over its medians (SampleTable::Stretch); that of a collective runs
// from its last member's arrival. Launch, gap and wake are taken from the same recordings. The
// reference GEMM is measured before, between rounds and after. On GPUs collectives and transfers
// are timed among two and among all of `devices`, and what GEMMs take beside an all-reduce: the
// profile's overlap_slowdown. What they take beside copies is told in its assumptions.
//
// Errors: those of Compile and of Executor::Run; kAborted when stopped. Calls come from the
// caller's thread.
Result<DeviceProfile> Calibrate(const CalibrateOptions& options, const FtDeviceApi& api,
                                RunClock& clock);

}  // namespace foretrain
