// Times launches on an own queue by device events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
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

// Ways to compute the same thing, to be timed against each other.
struct Contest {
  std::string what;
  std::size_t candidates = 0;
  // Makes the queue use a candidate; false if the device refuses it.
  std::function<Result<bool>(std::size_t candidate)> use;
  std::function<FtStatus()> launch;
  int rounds = 5;
  int launches = 4;  // in each round, fewer if they take long
};

// Median seconds of a launch of each candidate, `nullopt` for one that the device refuses.
// Candidates take turns, so that changing clocks affect all alike. Two launches each warm up code
// and caches; a candidate whose second takes over kHopeless times the fastest's keeps that time.
// Errors: the device's.
Result<std::vector<std::optional<double>>> TimeInTurns(LaunchTimer& timer, const Contest& contest);
inline constexpr double kHopeless = 1.5;

}  // namespace foretrain
