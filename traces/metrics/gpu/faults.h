// Errors that GPUs reported while a run was recorded: NVIDIA's XIDs, and memory errors that ECC
// corrected or could not correct. They come from the monitor's series (profiler/gpu_monitor.h).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "traces/run.h"

namespace foretrain {

enum class GpuFaultKind : std::uint8_t { kXid, kUncorrectedEcc, kCorrectedEcc };

struct GpuFault {
  GpuFaultKind kind = GpuFaultKind::kXid;
  int rank = 0;
  int xid = 0;                // NVIDIA's number; 0 for memory errors
  std::int64_t count = 0;     // > 0
  std::int64_t first_ns = 0;  // time of the first reading that has it

  bool operator==(const GpuFault&) const = default;
};

// Its meaning, and what to do: NVIDIA's table of XIDs in short, for those that training meets. For
// other numbers, where to look.
struct FaultText {
  std::string_view meaning;
  std::string_view remedy;
};
FaultText TextOf(const GpuFault& fault);

// "rank 3's GPU reported XID 79: it has fallen off the PCIe bus; restart the machine ...". With
// `bus_id`, the GPU's place is named too.
std::string Describe(const GpuFault& fault, std::string_view bus_id = {});

// Finds faults in readings as they come. One thread at a time.
class GpuFaultWatch {
 public:
  // The faults in `counters`, which follow those of earlier calls: alike ones as one, by rank, kind
  // and number. The first count of ECC errors of a rank is what it had before the run.
  std::vector<GpuFault> Take(std::span<const Counter> counters);

 private:
  std::map<std::pair<int, GpuFaultKind>, double> counts_;  // latest ECC counts
};

// The faults of a stored run.
std::vector<GpuFault> GpuFaultsOf(std::span<const Counter> counters);

}  // namespace foretrain
