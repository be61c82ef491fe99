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
  std::int64_t held = 0;     // by the allocator beside them
  DeviceOverhead outside;

  std::int64_t Total() const { return tensors + held + outside.Total(); }
};

// Of a rank of a linked program whose tensors have a peak of `tensors` bytes. What the allocator
// holds beside them: gaps between buffers of the arena or, where the system has a caching
// allocator, its segments (reserved_peak.h), which gives unused ones back where the device is full.
//
// O(ops) where the system has a caching allocator, else as DeviceOverheadOf; safe from any thread.
DeviceUse DeviceUseOf(const ModelSpec& model, const Plan& plan, const RankProgram& rank,
                            std::int64_t tensors, const ClusterSpec& cluster,
                            const SystemOptions& system);

// The rank of a linked program that takes most of its device, and what that is.
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

// What is left of a device for the program and its allocator: at least 0.
std::int64_t RoomOf(const ClusterSpec& cluster, const DeviceOverhead& outside);

}  // namespace foretrain
