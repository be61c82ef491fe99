#include "sim/validate/memory_figure.h"

#include <algorithm>

#include "sim/memory/device_use.h"
#include "sim/memory/reserved_peak.h"

namespace foretrain {

StatedMemory StatedMemoryOf(const ModelSpec& model, const Plan& plan, const SystemOptions& system,
                            const ClusterSpec& cluster, const FullestRank& fullest) {
  const DeviceOverhead outside = DeviceOverheadOf(cluster, plan, system);
  const std::int64_t room = RoomOf(cluster, outside);
  const auto memory_of = [&](int pp) -> ReservedMemory {
    if (!system.caching_allocator) {
      const std::int64_t bytes = PredictPeakMemory(model, plan, {.pp = pp}).total;
      return {bytes, bytes};
    }
    return PredictReserved(model, plan, {.pp = pp}, system, std::max<std::int64_t>(1, room));
  };
  const ReservedMemory most = memory_of(fullest.pp);
  const bool first = system.memory_rank == MemoryRank::kFirst && fullest.pp != 0;
  const ReservedMemory of_rank = first ? memory_of(0) : most;
  StatedMemory out;
  out.fits = most.reserved <= room;
  switch (system.memory_figure) {
    case MemoryFigure::kAllocated:
      out.stated = of_rank.allocated;
      break;
    case MemoryFigure::kReserved:
      out.stated = of_rank.reserved;
      break;
    case MemoryFigure::kNvidiaSmi:
      out.stated = of_rank.reserved + outside.OfProcess();
      break;
  }
  return out;
}

}  // namespace foretrain
