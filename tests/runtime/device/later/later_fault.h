// Training of a small plan on an asynchronous device whose calls fail.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "runtime/run/run_clock.h"

namespace foretrain {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kLaterSteps = 2;

struct Ended {
  std::optional<Error> error;
  std::int64_t made = 0;  // calls until the executor was created
  std::int64_t ran = 0;   // calls until the run had ended
  double seconds = 0;     // of the run
};

// Trains one layer on two ranks with optimizer state in pinned host memory: uses arenas, pinned
// pools, copies, kernels and collectives.
Ended TrainLater(std::int64_t steps, RunClock& clock, std::int64_t timeout_ns);

// Fails each call of creating the executor in turn. Of the calls in kLaterSteps steps it fails one
// in each of `parts` parts; 0 means every call, and several hundred of event_query. Expects the run
// to end with that error, in time, and all objects to be destroyed.
void FailCallsInTurn(std::int64_t parts);

}  // namespace foretrain
