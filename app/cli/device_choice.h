// The flag --device: which device a command computes on.
#pragma once

#include <optional>
#include <string>

#include "app/cli/arguments.h"
#include "base/device_api.h"
#include "base/result.h"

namespace foretrain {

struct DeviceChoice {
  const FtDeviceApi* api = nullptr;
  int count = 1;                // devices that it has
  std::optional<int> number{};  // the one that was named, "cuda:1"
  int Number() const { return number.value_or(0); }
};

class DeviceFlag {
 public:
  void Declare(Arguments& arguments);

  // The device that was asked for. Errors: kInvalidArgument, an unknown name, or a number that the
  // machine does not have; kUnsupported, CUDA was asked for and is not usable, with the reason.
  Result<DeviceChoice> Choose() const;
  bool IsCuda() const { return name_.starts_with("cuda"); }

 private:
  std::string name_ = "cpu";
};

// The number of "cuda:3"; `nullopt` for "cuda". Errors: kInvalidArgument, any other text.
Result<std::optional<int>> ParseCudaNumber(const std::string& name);

}  // namespace foretrain
