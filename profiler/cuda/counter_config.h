// Chooses the hardware counters that a chip can sample together, and computes their values. Needs
// no GPU: CUPTI knows chips by name.
#pragma once

#include "profiler/cuda/sampling_table.h"

#if FT_HAVE_PM_SAMPLING
#include <cstdint>
#include <span>
#include <vector>

namespace foretrain {

// A series and the metric of CUPTI that it is made of: value = scale * metric.
struct HardwareCounter {
  const char* name;
  const char* metric;
  double scale;
};

// All series, by importance. Shares are fractions of the sample's cycles.
inline constexpr HardwareCounter kHardwareCounters[] = {
    {"gpu_sm_active_share", "sm__cycles_active.avg.pct_of_peak_sustained_elapsed", 0.01},
    {"gpu_tensor_active_share",
     "sm__pipe_tensor_cycles_active_realtime.avg.pct_of_peak_sustained_elapsed", 0.01},
    {"gpu_sm_issue_share", "sm__inst_executed_realtime.avg.pct_of_peak_sustained_elapsed", 0.01},
    {"gpu_dram_read_share", "dram__read_throughput.avg.pct_of_peak_sustained_elapsed", 0.01},
    {"gpu_dram_write_share", "dram__write_throughput.avg.pct_of_peak_sustained_elapsed", 0.01},
    {"gpu_nvlink_received_bytes_per_s", "nvlrx__bytes.sum.per_second", 1.0},
    {"gpu_nvlink_sent_bytes_per_s", "nvltx__bytes.sum.per_second", 1.0},
    {"gpu_pcie_read_bytes_per_s", "pcie__read_bytes.sum.per_second", 1.0},
    {"gpu_pcie_write_bytes_per_s", "pcie__write_bytes.sum.per_second", 1.0}};

// Owns CUPTI's object for one chip. One thread at a time.
class CounterConfig {
 public:
  explicit CounterConfig(const SamplingTable& table) : table_(table) {}
  ~CounterConfig();
  CounterConfig(const CounterConfig&) = delete;
  CounterConfig& operator=(const CounterConfig&) = delete;

  // Takes each counter of kHardwareCounters that the chip has and that fits into one pass with
  // those before it: PM sampling cannot repeat work for a second pass.
  //
  //   chip          CUPTI's name, e.g. "GH100"
  //   availability  of the device's counters, as CUPTI gives it; empty: all that the chip has
  //
  // If false, `why` holds a sentence: the chip is unknown, or no counter is left. About 20 ms.
  bool Choose(const char* chip, std::span<const std::uint8_t> availability, char* why,
              std::size_t n);

  const std::vector<HardwareCounter>& counters() const { return counters_; }
  // CUPTI's names, parallel to counters(). Not const: CUPTI's structures ask for that.
  std::span<const char*> metrics() { return metrics_; }
  // The plan of the collection, for cuptiPmSamplingSetConfig.
  std::span<const std::uint8_t> image() const { return image_; }

  // Values of counters() in sample `index` of a decoded image.
  bool Evaluate(std::span<const std::uint8_t> decoded, std::size_t index,
                std::vector<double>& values, char* why, std::size_t n);

 private:
  bool Reset(const char* chip, std::span<const std::uint8_t> availability, char* why,
             std::size_t n);
  void Release();
  // Makes the image of `metrics_` and counts its passes.
  bool Plan(std::size_t& passes, char* why, std::size_t n);

  const SamplingTable& table_;
  CUpti_Profiler_Host_Object* host_ = nullptr;
  std::vector<HardwareCounter> counters_;
  std::vector<const char*> metrics_;
  std::vector<std::uint8_t> image_;
};

}  // namespace foretrain
#endif
