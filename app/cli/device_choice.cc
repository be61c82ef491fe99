#include "app/cli/device_choice.h"

#include <charconv>

#include "kernels/cpu/cpu_device.h"
#include "runtime/device/cuda_plugin.h"

namespace foretrain {

void DeviceFlag::Declare(Arguments& arguments) {
  arguments.Option("--device", name_, "cpu|cuda|cuda:N",
                   "Device to run on, and to forecast for; cuda:N is GPU number N");
}

// `nullopt` for "cuda", which leaves the number open.
Result<std::optional<int>> ParseCudaNumber(const std::string& name) {
  constexpr std::string_view kNamed = "cuda:";
  if (name == "cuda") return std::optional<int>();
  int number = -1;
  if (name.starts_with(kNamed)) {
    const char* const end = name.data() + name.size();
    const auto [rest, error] = std::from_chars(name.data() + kNamed.size(), end, number);
    if (error != std::errc() || rest != end) number = -1;
  }
  if (number >= 0) return std::optional<int>(number);
  return Fail(
      ErrorCode::kInvalidArgument,
      "--device: \"" + name + "\" is none of cpu, cuda, cuda:N; `foretrain devices` shows them");
}

// The CPU needs no plugin. A GPU number is checked against the devices that the plugin sees.
Result<DeviceChoice> DeviceFlag::Choose() const {
  DeviceChoice choice;
  choice.api = &CpuDeviceApi();
  if (name_ == "cpu") return choice;
  FT_ASSIGN(choice.number, ParseCudaNumber(name_));
  const CudaDevice cuda = LoadCudaDevice(UsualPluginPlaces());
  if (cuda.api == nullptr) {
    return Fail(ErrorCode::kUnsupported,
                "--device " + name_ + ": " + cuda.why + "; use --device cpu");
  }
  choice.api = cuda.api;
  choice.count = cuda.count;
  if (choice.Number() < choice.count) return choice;
  return Fail(ErrorCode::kInvalidArgument, "--device: \"" + name_ +
                                               "\", and this machine's GPUs are 0 to " +
                                               std::to_string(choice.count - 1));
}

}  // namespace foretrain
