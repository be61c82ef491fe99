// The kernels of a run, by launch, as `analyze` lists them.
#pragma once

#include <optional>
#include <string>

#include "sim/config/cluster/cluster_spec.h"
#include "traces/kernels/kernel_table.h"

namespace foretrain {

class JsonWriter;

// Time that a GPU needs at least for the calls whose work is known, over the time they took: the
// longer of arithmetic at the peak of its number format and traffic at the peak of its memory.
// `nullopt` if the work is unknown.
std::optional<double> RooflineShare(const KernelWork& work, const DeviceSpec& gpu);

// The catalogue's row of the GPU that the driver named; `nullopt` if it has none.
std::optional<DeviceSpec> GpuOf(const KernelTable& kernels);

// The longest kernels of all recorded steps and ranks with their rates, launches and theoretical
// occupancy; "" without kernels. `gpu` is that of GpuOf.
std::string LaunchedKernelsText(const KernelTable& kernels, const std::optional<DeviceSpec>& gpu);

// The key `kernels` into the open object: all rows, longest first. Nothing is written without
// kernels.
void WriteLaunchedKernels(JsonWriter& json, const KernelTable& kernels,
                          const std::optional<DeviceSpec>& gpu);

}  // namespace foretrain
