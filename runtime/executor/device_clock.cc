#include "runtime/executor/device_clock.h"

#include <limits>
#include <utility>

namespace foretrain {
namespace {

// Readings of an alignment, and the age of the origin at which it moves.
constexpr int kReadings = 5;
constexpr std::int64_t kStepNs = 1'000'000'000;

}  // namespace

Result<DeviceClock> DeviceClock::Make(const FtDeviceApi& api, int device) {
  DeviceClock clock;
  clock.api_ = &api;
  FT_ASSIGN(clock.queue_, DeviceQueue::Make(api, device));
  FT_ASSIGN(clock.origin_, DeviceEvent::Make(api, device, /*timed=*/true));
  FT_ASSIGN(clock.next_, DeviceEvent::Make(api, device, /*timed=*/true));
  return clock;
}

// The queue holds nothing else, so the event happens between this call and its return.
Result<void> DeviceClock::Mark(const DeviceEvent& event) const {
  FT_TRY(event.RecordOn(queue_.get()));
  return Checked(api_->queue_synchronize(queue_.get()), "read the device's clock",
                 api_->queue_error(queue_.get()));
}

// The shortest of several readings bounds the error: the event lies between the two readings of the
// host's clock.
Result<void> DeviceClock::Align(const RunClock& clock) {
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < kReadings; ++i) {
    const std::int64_t before = clock.Now();
    FT_TRY(Mark(next_));
    const std::int64_t took = clock.Now() - before;
    if (took >= shortest) continue;
    shortest = took;
    origin_ns_ = before + took / 2;
    std::swap(origin_, next_);
  }
  return {};
}

Result<std::int64_t> DeviceClock::TimeOf(const DeviceEvent& event) const {
  FT_ASSIGN(const std::int64_t since, event.Since(origin_));
  return origin_ns_ + since;
}

// Moving the origin forward keeps the fp32 differences small, and so precise.
Result<void> DeviceClock::Advance(std::int64_t now_ns) {
  if (now_ns - origin_ns_ < kStepNs) return {};
  FT_TRY(Mark(next_));
  FT_ASSIGN(const std::int64_t since, next_.Since(origin_));
  origin_ns_ += since;
  std::swap(origin_, next_);
  return {};
}

}  // namespace foretrain
