// All that a rank takes of its device's memory, and whether the device has it: the one definition
// that predict, plan, fit, train and validate go by. Leaves out the program's tensors by category
// (linked_peak.h, peak_memory.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sim/memory/device_overhead.h"
#include "sim/memory/peak_memory.h"
#include "sim/program/program.h"
#include "sim/spec/cluster_spec.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"
#include "sim/spec/system_options.h"

namespace foretrain {

struct DeviceUse {
  std::int64_t tensors = 0;  // of the program, live at their peak
  std::int64_t held = 0;     // beside them and as surely: gaps of an arena, what eager kernels keep
  std::int64_t cached = 0;   // by the allocator, in segments that no tensor needs
  DeviceOverhead outside;

  // A plan fails where this passes the device.
  std::int64_t Needed() const { return tensors + held + outside.Total(); }
  std::int64_t Total() const { return Needed() + cached; }
};

// Of the rank at `at`, whose tensors have a peak of `tensors` bytes and whose arena would have
// `arena`, which counts where no caching allocator serves the system.
//
// A caching allocator that finds no room gives back the segments that are free and asks again
// before it fails (PyTorch, CUDACachingAllocator.cpp: release_cached_blocks), and a run near the
// end of its memory spends its gaps on what is asked next. How gaps lie depends on the lives of
// Python's variables, which the program does not have, so that they are not taken to make a run
// fail: `cached` is what the model of the allocator reserves beside blocks in use, cut to what the
// device has left. Too lenient for runs that fail of gaps alone.
//
// O(ops) where the system has a caching allocator, else as DeviceOverheadOf; safe from any thread.
DeviceUse DeviceUseOf(const ModelSpec& model, const Plan& plan, const RankCoordinates& at,
                      std::int64_t tensors, std::int64_t arena, const ClusterSpec& cluster,
                      const SystemOptions& system);
DeviceUse DeviceUseOf(const ModelSpec& model, const Program& program, const RankProgram& rank,
                      std::int64_t tensors, const ClusterSpec& cluster,
                      const SystemOptions& system);

bool Fits(const DeviceUse& use, const ClusterSpec& cluster);

// The rank of a linked program that needs most of its device, and what that is.
//
//   tensors  peaks of the program's ranks, in their order
//
// Of pipelines of more than 4 stages with a caching allocator the ranks that are looked at are the
// first, the last and the one whose tensors take most.
struct FullestDevice {
  std::size_t rank = 0;  // in Program::ranks
  DeviceUse memory;
};
FullestDevice FullestDeviceOf(const ModelSpec& model, const Program& program,
                              std::span<const PeakMemory> tensors, const ClusterSpec& cluster,
                              const SystemOptions& system);

// The same of a valid plan that is not compiled, by stages; an arena is taken to have no gaps.
struct StageUse {
  int pp = 0;
  DeviceUse memory;
};
StageUse FullestStageOf(const ModelSpec& model, const Plan& plan, const ClusterSpec& cluster,
                        const SystemOptions& system);

// What is left of a device for the program and its allocator: at least 0.
std::int64_t RoomOf(const ClusterSpec& cluster, const DeviceOverhead& outside);

}  // namespace foretrain
