// Converts times of an asynchronous device's events to the run's clock. Times of single kernels
// come from a capture (base/device_api.h).
#pragma once

#include <cstdint>

#include "base/device_api.h"
#include "base/result.h"
#include "runtime/device/device.h"
#include "runtime/run/run_clock.h"

namespace foretrain {

// Both clocks are read around an event on an idle queue. The offset's error is at most half of the
// shortest such reading, about 10 µs. After that only the device's clock counts, with a new origin
// each second: the time between two events is given in fp32 milliseconds, whose resolution at one
// second is 60 ns.
class DeviceClock {
 public:
  static Result<DeviceClock> Make(const FtDeviceApi& api, int device);

  // Reads both clocks. The device must be idle.
  Result<void> Align(const RunClock& clock);

  // Time of an event that has ended.
  Result<std::int64_t> TimeOf(const DeviceEvent& event) const;

  // Moves the origin if it lies more than a second before `now_ns`.
  Result<void> Advance(std::int64_t now_ns);

 private:
  Result<void> Mark(const DeviceEvent& event) const;

  const FtDeviceApi* api_ = nullptr;
  DeviceQueue queue_;
  DeviceEvent origin_, next_;
  std::int64_t origin_ns_ = 0;
};

}  // namespace foretrain
