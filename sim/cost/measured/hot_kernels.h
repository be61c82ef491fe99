// Hot times of single kernels on a device of a cluster, from the built-in profiles.
#pragma once

#include <optional>

#include "sim/config/cluster/cluster_spec.h"
#include "sim/cost/measured/kernel_forecast.h"

namespace foretrain {

// `nullopt` if the device's 16-bit peak, bandwidth or multiprocessors are unknown. The first call
// reads the built-in profiles. Safe from any thread.
std::optional<KernelForecast> HotKernelsOf(const DeviceSpec& device);

}  // namespace foretrain
