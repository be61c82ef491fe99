// Training of a small plan on a device that works later, where calls of the device fail.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "runtime/run_clock.h"

namespace foretrain {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kLaterSteps = 2;

struct Ended {
  std::optional<Error> error;
  std::int64_t made = 0;  // calls until the executor was made
  std::int64_t ran = 0;   // and until the run had ended
  double seconds = 0;     // of the run
};

// Trains one layer on two ranks whose optimizer state is pinned on the host: arenas, pinned pools,
// copies, kernels, collectives.
Ended TrainLater(std::int64_t steps, RunClock& clock, std::int64_t timeout_ns);

// Each call of making fails in turn, and of kLaterSteps steps one of each of `parts` parts, 0: each
// but event_query, of which several hundred: expects that the run ends with its error, in time, and
// that all was given back.
void FailCallsInTurn(std::int64_t parts);

}  // namespace foretrain
