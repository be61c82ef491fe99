#include "runtime/device/launch_timer.h"

#include <algorithm>
#include <array>
#include <limits>

namespace foretrain {
namespace {

// Launches of one turn take about this long at most.
constexpr double kTurnSeconds = 0.02;
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

Result<std::vector<std::optional<double>>> TimeInTurns(LaunchTimer& timer, const Contest& contest) {
  std::vector<std::optional<double>> warm(contest.candidates);
  for (std::size_t i = 0; i < warm.size(); ++i) {
    FT_ASSIGN(const bool used, contest.use(i));
    if (!used) continue;
    for (int launch = 0; launch < 2; ++launch) {
      FT_ASSIGN(warm[i], timer.Seconds(1, contest.what, contest.launch));
    }
  }
  double fastest = std::numeric_limits<double>::infinity();
  for (const std::optional<double>& seconds : warm) {
    if (seconds) fastest = std::min(fastest, *seconds);
  }
  std::vector<std::vector<double>> seconds(contest.candidates);
  for (int round = 0; round < contest.rounds; ++round) {
    for (std::size_t i = 0; i < warm.size(); ++i) {
      if (!warm[i] || *warm[i] > kHopeless * fastest) continue;
      FT_ASSIGN(const bool used, contest.use(i));
      if (!used) continue;
      const double fitting = kTurnSeconds / std::max(*warm[i], kTurnSeconds / contest.launches);
      FT_ASSIGN(const double time, timer.Seconds(std::max(1, static_cast<int>(fitting)),
                                                 contest.what, contest.launch));
      seconds[i].push_back(time);
    }
  }
  for (std::size_t i = 0; i < warm.size(); ++i) {
    if (!seconds[i].empty()) warm[i] = MedianOf(seconds[i]);
  }
  return warm;
}

}  // namespace foretrain
