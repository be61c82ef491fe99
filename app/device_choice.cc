#include "app/device_choice.h"

#include "kernels/cpu/cpu_device.h"
#include "runtime/cuda_plugin.h"

namespace foretrain {

void DeviceFlag::Declare(Arguments& arguments) {
  arguments.Option("--device", name_, "cpu|cuda",
                   "What computes, and what the run is forecast for");
}

Result<const FtDeviceApi*> DeviceFlag::Choose() const {
  if (name_ == "cpu") return &CpuDeviceApi();
  if (name_ != "cuda") {
    return Fail(ErrorCode::kInvalidArgument,
                "--device: \"" + name_ + "\" is none of cpu, cuda; `foretrain devices` shows them");
  }
  const CudaDevice cuda = LoadCudaDevice(UsualPluginPlaces());
  if (cuda.api == nullptr) {
    return Fail(ErrorCode::kUnsupported, "--device cuda: " + cuda.why + "; use --device cpu");
  }
  return cuda.api;
}

}  // namespace foretrain
