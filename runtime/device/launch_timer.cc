#include "runtime/device/launch_timer.h"

#include <algorithm>
#include <array>

namespace foretrain {
namespace {

constexpr int kFilledWith = 0x3c;  // each byte: 0.0115 in fp32 and bf16, 1.06 in fp16

}  // namespace

Result<LaunchTimer> LaunchTimer::Make(const FtDeviceApi& api, int device) {
  LaunchTimer timer(api, device);
  FT_ASSIGN(timer.queue_, DeviceQueue::Make(api, device));
  FT_ASSIGN(timer.begin_, DeviceEvent::Make(api, device, /*timed=*/true));
  FT_ASSIGN(timer.end_, DeviceEvent::Make(api, device, /*timed=*/true));
  return timer;
}

// The old memory is freed before the new is allocated, so that both never exist together. The fill
// makes values equal in every run: they affect a GPU's power, and with it its clock.
Result<std::byte*> LaunchTimer::Memory(std::int64_t bytes) {
  memory_ = {};
  FT_ASSIGN(memory_, DeviceMemory::Make(*api_, device_, bytes));
  FT_TRY(Checked(api_->fill(queue_.get(), memory_.data(), kFilledWith, bytes), "fill",
                 api_->queue_error(queue_.get())));
  return memory_.data();
}

// One pair of events around all launches: the gaps between them count as they do in training.
Result<double> LaunchTimer::Seconds(int launches, const std::string& what,
                                    const std::function<FtStatus()>& launch) {
  const auto checked = [&](FtStatus status) {
    return Checked(status, what, api_->queue_error(queue_.get()));
  };
  FT_TRY(begin_.RecordOn(queue_.get()));
  for (int i = 0; i < launches; ++i) FT_TRY(checked(launch()));
  FT_TRY(end_.RecordOn(queue_.get()));
  FT_TRY(checked(api_->queue_synchronize(queue_.get())));
  std::array<char, 256> why{};
  std::int64_t ns = 0;
  FT_TRY(Checked(api_->event_elapsed(begin_.get(), end_.get(), &ns, why.data(), why.size()),
                 "time of a " + what, why.data()));
  return static_cast<double>(ns) * 1e-9 / launches;
}

// nth_element is O(n). For an even number of values it is the upper of the two in the middle.
double MedianOf(std::vector<double> seconds) {
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

}  // namespace foretrain
