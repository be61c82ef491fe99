// Activity of one GPU between two readings, by NVML's GPM counters, which GPUs have from Hopper on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "profiler/nvml.h"
#include "traces/run.h"

namespace foretrain {

// One thread at a time.
class GpuActivity {
 public:
  // Null if the driver or the GPU has no GPM counters. `nvml` must outlive the result.
  static std::unique_ptr<GpuActivity> Open(const Nvml& nvml, NvmlDevice* gpu);
  ~GpuActivity();
  GpuActivity(const GpuActivity&) = delete;
  GpuActivity& operator=(const GpuActivity&) = delete;

  // Adds the mean of each counter since the previous call, stamped with that call's time. The
  // first call adds nothing. Calls should be more than 100 ms apart, because the GPU refreshes its
  // counters about that often (NVML reference, nvmlGpmMetricsGet).
  //
  // Series: gpu_sm_activity, gpu_sm_occupancy, gpu_tensor_activity, gpu_fp16_activity,
  // gpu_fp32_activity, gpu_fp64_activity, gpu_integer_activity and gpu_dram_share are fractions.
  // gpu_pcie_tx_bytes_per_s, gpu_pcie_rx_bytes_per_s, gpu_nvlink_tx_bytes_per_s and
  // gpu_nvlink_rx_bytes_per_s are what the GPU sends (tx) and receives (rx). A counter that the GPU
  // does not have has no series.
  void Read(int rank, std::int64_t time_ns, std::vector<Counter>& out);

 private:
  struct Functions;
  GpuActivity(std::unique_ptr<Functions> functions, NvmlDevice* gpu);

  const std::unique_ptr<Functions> functions_;
  NvmlDevice* const gpu_;
  void* before_ = nullptr;  // samples of the library: the previous one, and one to read into
  void* now_ = nullptr;
  std::optional<std::int64_t> before_ns_{};  // absent before the first reading
};

}  // namespace foretrain
