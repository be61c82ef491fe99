// Stores with runs of millions of spans: a real forecast, repeated.
#pragma once

#include <cstdint>
#include <string>

#include "tests/app/run_binary.h"

namespace foretrain {

struct LongStore {
  std::string path{};
  std::int64_t spans = 0;  // of forecast and measurement together
  std::int32_t steps = 0;  // of the measurement
};

// A store in `folder` with one step of a forecast (run 2) and a measurement of it (run 3). Measured
// spans are up to 30 % longer. Both have memory samples; together they have about `spans` spans.
//
//   one_step  repetitions are micro-batches of one step in both runs, instead of steps
//   ranks     of both runs; a multiple of 32
//
// Fails the test on errors.
LongStore MakeLongStore(const TemporaryFolder& folder, std::int64_t spans, bool one_step = false,
                        int ranks = 32);

}  // namespace foretrain
