// Times launches on an own queue by device events.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/device_api.h"
#include "base/result.h"
#include "runtime/device/device.h"

namespace foretrain {

class LaunchTimer {
 public:
  // Errors: the device's.
  static Result<LaunchTimer> Make(const FtDeviceApi& api, int device);

  FtQueue* queue() const { return queue_.get(); }

  // Memory for `bytes` bytes, filled with one byte value; valid until the next call. Errors: the
  // device's; kResourceExhausted.
  Result<std::byte*> Memory(std::int64_t bytes);

  // Mean seconds of a launch of `what` over `launches` launches.
  // Errors: the device's.
  Result<double> Seconds(int launches, const std::string& what,
                         const std::function<FtStatus()>& launch);

 private:
  LaunchTimer(const FtDeviceApi& api, int device) : api_(&api), device_(device) {}

  const FtDeviceApi* api_;
  int device_;
  DeviceQueue queue_;
  DeviceEvent begin_, end_;
  DeviceMemory memory_;
};

// The middle value; at least one is needed.
double MedianOf(std::vector<double> seconds);

}  // namespace foretrain
