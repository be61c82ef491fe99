#include "sim/validate/memory_figure.h"

#include "sim/memory/device_use.h"

namespace foretrain {

StatedMemory StatedMemoryOf(const ModelSpec& model, const Plan& plan, const SystemOptions& system,
                            const ClusterSpec& cluster) {
  // The source may state memory of rank 0 instead of the fullest. Whether the run fits always
  // depends on the fullest. The kind of figure decides which parts are added: cached memory of the
  // allocator, and for nvidia-smi also memory outside it.
  const FullestDevice fullest = FullestDeviceOf(model, plan, cluster, system);
  const auto first = [&] {
    const std::int64_t tensors = PlannedPeak(model, plan, {}).total;
    return DeviceUseOf(model, plan, RankCoordinates{}, tensors, tensors, cluster, system);
  };
  const bool other = system.memory_rank == MemoryRank::kFirst && fullest.index != 0;
  const DeviceUse use = other ? first() : fullest.memory;
  StatedMemory out{use.tensors + use.held, Fits(fullest.memory, cluster)};
  if (system.memory_figure == MemoryFigure::kAllocated) return out;
  out.stated += use.cached;
  if (system.memory_figure == MemoryFigure::kNvidiaSmi) out.stated += use.outside.OfProcess();
  return out;
}

}  // namespace foretrain
