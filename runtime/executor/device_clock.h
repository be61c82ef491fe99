// Times of an asynchronous device's events on the run's clock. Leaves out times of single kernels,
// which a capture has (base/device_api.h).
#pragma once

#include <cstdint>

#include "base/device_api.h"
#include "base/result.h"
#include "runtime/device.h"
#include "runtime/run_clock.h"

namespace foretrain {

// Both clocks are read around an event on an idle queue: the offset is off by half of the shortest
// of some such readings at most, about 10 µs. After that only the device's clock counts, in steps
// of a second, for a device gives the time between two events as fp32 milliseconds, which at a
// second are 60 ns apart.
class DeviceClock {
 public:
  static Result<DeviceClock> Make(const FtDeviceApi& api, int device);

  // Reads both clocks. The device is idle.
  Result<void> Align(const RunClock& clock);

  // When the event, which has ended, was reached.
  Result<std::int64_t> TimeOf(const DeviceEvent& event) const;

  // Moves the origin where it lies more than a second before `now_ns`.
  Result<void> Advance(std::int64_t now_ns);

 private:
  Result<void> Mark(const DeviceEvent& event) const;

  const FtDeviceApi* api_ = nullptr;
  DeviceQueue queue_;
  DeviceEvent origin_, next_;
  std::int64_t origin_ns_ = 0;
};

}  // namespace foretrain
