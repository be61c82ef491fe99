// Reads the state, the activity and the errors of GPUs by NVML, which is loaded on request.
// traces/metrics/gpu interprets the values.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/result.h"
#include "traces/run.h"

namespace foretrain {

// Libraries to load; tests name others.
struct MonitorLibraries {
  std::string monitor = "libnvidia-ml.so.1";
  std::string driver = "libcuda.so.1";  // maps CUDA's device numbers to GPUs
};

// A rank and its CUDA device number.
struct MonitoredRank {
  int rank = 0;
  int device = 0;
};

// When the thread of a monitor reads. Errors are looked for at every reading.
struct MonitorPace {
  // Activity. NVML wants more than 100 ms between two readings of it; twice that leaves room for a
  // thread that wakes late.
  std::int64_t interval_ns = 200'000'000;
  int state_every = 5;  // readings: state is read once a second
  // After so many readings, 10 minutes, activity is read as rarely as state: a run of days must not
  // fill its store with it.
  int fine_readings = 3000;
};

// Series for each rank, without a step. A value that a GPU does not report has no series.
class GpuMonitor {
 public:
  // Errors: kUnsupported: a library or function is missing, or the driver's own text.
  static Result<std::unique_ptr<GpuMonitor>> Open(const MonitorLibraries& libraries,
                                                  std::vector<MonitoredRank> ranks);
  ~GpuMonitor();  // calls Stop
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;

  // PCI bus id of the GPU of `rank`, as CUDA writes it: "0000:1B:00.0". Empty for other ranks.
  std::string_view BusIdOf(int rank) const;

  // The functions below read each rank's GPU. One thread at a time.

  // State: gpu_sm_clock_hz, gpu_memory_clock_hz, gpu_power_w, gpu_temperature_c,
  // gpu_throttle_reasons (NVML's bits), gpu_pcie_generation, gpu_pcie_width, and the memory errors
  // since the driver was loaded, gpu_ecc_corrected and gpu_ecc_uncorrected. GPUs without GPM
  // counters also have gpu_busy_share and gpu_memory_busy_share: shares of the last 1/6 to 1 s in
  // which any kernel ran, and in which device memory was read or written.
  std::vector<Counter> Read(std::int64_t time_ns) const;
  // Means since the previous call: the series of GpuActivity.
  std::vector<Counter> ReadActivity(std::int64_t time_ns);
  // Errors since the previous call.
  struct Events {
    std::vector<Counter> xids{};  // gpu_xid: NVIDIA's number of the error
    bool memory_error = false;    // the counts of ECC errors have changed
  };
  Events TakeEvents(std::int64_t time_ns) const;

  // Reads at once and then at `pace`, on an own thread, and passes the readings to `take` there.
  void Start(std::function<std::int64_t()> now, std::function<void(std::vector<Counter>)> take,
             const MonitorPace& pace = {});
  // Reads errors and state once more. Returns once the thread has ended.
  void Stop();

 private:
  class Library;
  struct Gpu;
  GpuMonitor(std::unique_ptr<Library> library, std::vector<Gpu> gpus);
  std::vector<Counter> ReadAll(std::int64_t time_ns, bool activity, bool state);

  const std::unique_ptr<Library> library_;
  std::vector<Gpu> gpus_;  // one for each rank

  std::mutex mutex_;
  std::condition_variable woken_;
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace foretrain
