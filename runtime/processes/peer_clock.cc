#include "runtime/processes/peer_clock.h"

#include <cstddef>

namespace foretrain {
namespace {

constexpr int kExchanges = 5;  // in each reading
constexpr std::int64_t kIntervalNs = 1'000'000'000;
constexpr std::size_t kMaxSamples = 256;
// An exchange of 50 us has an error of at most 25 us. Over two seconds this allows a drift error of
// 13 in a million, or 13 us until the next reading.
constexpr std::int64_t kMinSpreadNs = 2'000'000'000;

}  // namespace

bool PeerClock::Asks(std::int64_t now_ns) {
  if (asked_ns_ || now_ns < next_ns_) return false;
  asked_ns_ = now_ns;
  left_ = kExchanges;
  best_ = {.width_ns = INT64_MAX};
  return true;
}

// The shortest exchange of a reading wins: the answer then lies closest to the middle.
bool PeerClock::Answered(std::int64_t answer_ns, std::int64_t now_ns) {
  if (!asked_ns_) return false;
  const std::int64_t width_ns = now_ns - *asked_ns_;
  if (width_ns < best_.width_ns) best_ = {answer_ns, *asked_ns_ + width_ns / 2, width_ns};
  if (--left_ > 0) {
    asked_ns_ = now_ns;
    return true;
  }
  asked_ns_.reset();
  next_ns_ = now_ns + kIntervalNs;
  if (samples_.size() == kMaxSamples) samples_.erase(samples_.begin());
  samples_.push_back(best_);
  fit_ = FitClock(samples_, kMinSpreadNs);
  return false;
}

}  // namespace foretrain
