// Reads clocks, power, temperature, throttling and PCIe link of GPUs by NVML, which is loaded on
// request. traces/metrics/throttling.h interprets the values.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "traces/run.h"

namespace foretrain {

struct NvmlDevice;

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

// Series for each rank, without a step: gpu_sm_clock_hz, gpu_memory_clock_hz, gpu_power_w,
// gpu_temperature_c, gpu_throttle_reasons (NVML's bits), gpu_pcie_generation, gpu_pcie_width. A
// value that a GPU does not report has no series.
class GpuMonitor {
 public:
  // Errors: kUnsupported: a library or function is missing, or the driver's own text.
  static Result<std::unique_ptr<GpuMonitor>> Open(const MonitorLibraries& libraries,
                                                  std::vector<MonitoredRank> ranks);
  ~GpuMonitor();  // calls Stop
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;

  // One reading of each rank's GPU. One thread at a time.
  std::vector<Counter> Read(std::int64_t time_ns) const;

  // Reads at once and then every `interval_ns`, on an own thread, and passes the readings to `take`
  // there.
  void Start(std::function<std::int64_t()> now, std::function<void(std::vector<Counter>)> take,
             std::int64_t interval_ns = 1'000'000'000);
  // Returns once the thread has ended.
  void Stop();

 private:
  class Library;
  GpuMonitor(std::unique_ptr<Library> library, std::vector<MonitoredRank> ranks,
             std::vector<NvmlDevice*> gpus);

  const std::unique_ptr<Library> library_;
  const std::vector<MonitoredRank> ranks_;
  const std::vector<NvmlDevice*> gpus_;  // the library's handles, parallel to ranks_

  std::mutex mutex_;
  std::condition_variable woken_;
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace foretrain
