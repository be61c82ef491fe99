#include "sim/program/link/clocks.h"

#include <algorithm>
#include <cstddef>

namespace foretrain {

VectorClocks::VectorClocks(const FlatStep& step, int steps)
    : step_(step),
      lanes_(step.Lanes()),
      clocks_(step.lane.size() * step.Lanes() * static_cast<std::size_t>(steps), -1) {}

// An op inherits the clock of the op before it on its queue and adds that op itself. So the clock
// always includes everything its FIFO predecessor had waited for.
void VectorClocks::Begin() {
  ++now_;
  const std::uint8_t lane = LaneOf(now_);
  std::int32_t& previous = last_[lane];
  if (previous >= 0) {
    const auto from = clocks_.begin() + static_cast<std::ptrdiff_t>(At(previous));
    const auto to = clocks_.begin() + static_cast<std::ptrdiff_t>(At(now_));
    std::copy(from, from + static_cast<std::ptrdiff_t>(lanes_), to);
    to[lane] = previous;
  }
  previous = now_;
}

// Component-wise maximum with the clock of `from`, then `from` itself: waiting for an op implies
// waiting for all that it waited for. O(lanes).
void VectorClocks::Join(std::int32_t from) {
  FT_CHECK(from < now_);
  const std::size_t to = At(now_);
  const std::size_t source = At(from);
  for (std::size_t lane = 0; lane < lanes_; ++lane) {
    clocks_[to + lane] = std::max(clocks_[to + lane], clocks_[source + lane]);
  }
  std::int32_t& seen = clocks_[to + LaneOf(from)];
  seen = std::max(seen, from);
}

std::int32_t VectorClocks::LatestUncovered(const LaneOps& ops) const {
  const std::uint8_t own = LaneOf(now_);
  std::int32_t latest = -1;
  for (std::size_t lane = 0; lane < lanes_; ++lane) {
    if (lane != own && ops[lane] > clocks_[At(now_) + lane]) latest = std::max(latest, ops[lane]);
  }
  return latest;
}

}  // namespace foretrain
