#include "sim/cost/measured/hot_kernels.h"

#include <algorithm>
#include <vector>

#include "sim/config/catalogue/catalogue.h"
#include "sim/cost/measured/kernel_profile_json.h"
#include "sim/cost/profile/architecture.h"

namespace foretrain {
namespace {

struct BuiltIn {
  std::vector<KernelProfile> profiles = BuiltInKernelProfiles().value();
  std::vector<Architecture> architectures = BuiltInArchitectures().value();
  std::vector<GpuEntry> gpus = BuiltInCatalogue().value().gpus;
};

}  // namespace

// The catalogue knows the best product that was published for a device, which the device's own
// description does not hold.
std::optional<KernelForecast> HotKernelsOf(const DeviceSpec& device) {
  static const BuiltIn built_in;
  const auto gpu =
      std::find_if(built_in.gpus.begin(), built_in.gpus.end(),
                   [&device](const GpuEntry& entry) { return entry.device.name == device.name; });
  const double best = gpu == built_in.gpus.end() ? 0 : gpu->measured_bf16_flop_per_s;
  const auto known = KernelDeviceOf(device, best, built_in.architectures);
  if (!known.has_value()) return std::nullopt;
  return KernelForecast(*known, built_in.profiles);
}

}  // namespace foretrain
