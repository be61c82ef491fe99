// All device memory that a rank takes, and whether it fits. This is the one definition for predict,
// plan, fit, train and validate. Leaves out the program's tensors by category (linked_peak.h,
// peak_memory.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sim/config/cluster/cluster_spec.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/config/plan/system_options.h"
#include "sim/memory/device_overhead.h"
#include "sim/memory/peak_memory.h"
#include "sim/program/ir/program.h"

namespace foretrain {

struct DeviceUse {
  std::int64_t tensors = 0;  // peak of the program's live tensors
  std::int64_t held = 0;     // also needed: gaps of the arena, tensors that eager kernels keep
  std::int64_t cached = 0;   // segments that the allocator caches and no tensor needs
  DeviceOverhead outside;

  // Bytes without which the plan fails.
  std::int64_t Needed() const { return tensors + held + outside.Total(); }
  std::int64_t Total() const { return Needed() + cached; }
};

// Device memory of the rank at `at`.
//
//   tensors  peak bytes of its live tensors
//   arena    bytes of its arena; used only if the system has no caching allocator
//
// `cached` never makes a plan fail. A caching allocator without room gives back free segments and
// tries again before it fails (PyTorch, CUDACachingAllocator.cpp: release_cached_blocks). Gaps
// depend on the lifetimes of Python variables, which a program does not have. So `cached` is the
// modelled reservation less blocks in use, cut to the room that the device has left. This is too
// lenient for runs that fail by fragmentation alone.
//
// O(ops) with a caching allocator, else as DeviceOverheadOf; safe from any thread.
DeviceUse DeviceUseOf(const ModelSpec& model, const Plan& plan, const RankCoordinates& at,
                      std::int64_t tensors, std::int64_t arena, const ClusterSpec& cluster,
                      const SystemOptions& system);
DeviceUse DeviceUseOf(const ModelSpec& model, const Program& program, const RankProgram& rank,
                      std::int64_t tensors, const ClusterSpec& cluster,
                      const SystemOptions& system);

bool Fits(const DeviceUse& use, const ClusterSpec& cluster);

// The rank of a linked program with the largest need, and its memory.
//
//   tensors  peaks of the program's ranks, in their order
//
// With a caching allocator and more than 4 stages, it examines three ranks: the first, the last and
// the one with the largest tensors.
struct FullestDevice {
  std::size_t rank = 0;  // in Program::ranks
  DeviceUse memory;
};
FullestDevice FullestDeviceOf(const ModelSpec& model, const Program& program,
                              std::span<const PeakMemory> tensors, const ClusterSpec& cluster,
                              const SystemOptions& system);

// The same for a valid plan that is not compiled, by stage. The arena is assumed to have no gaps.
struct StageUse {
  int pp = 0;
  DeviceUse memory;
};
StageUse FullestStageOf(const ModelSpec& model, const Plan& plan, const ClusterSpec& cluster,
                        const SystemOptions& system);

// Bytes of the device left for the program and its allocator; at least 0.
std::int64_t RoomOf(const ClusterSpec& cluster, const DeviceOverhead& outside);

}  // namespace foretrain
