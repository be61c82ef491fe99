// Converts this process's clock to that of rank 0's process. It is read by message exchanges at the
// start and once a second, because clocks of two machines drift. runtime/processes/process_group.h
// sends the messages.
//
//   asked at 1,000 ─────► answer 71,040 ─────► received at 1,100    71,040 is 1,050 here, +- 50
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "profiler/clock_fit.h"

namespace foretrain {

// One thread at a time. Times in nanoseconds: `now_ns` on this clock, answers on rank 0's.
class PeerClock {
 public:
  // True if a question should be sent now, the first of a reading.
  bool Asks(std::int64_t now_ns);
  // Takes an answer. True if the next question should be sent at once: a reading is the shortest of
  // five exchanges.
  bool Answered(std::int64_t answer_ns, std::int64_t now_ns);

  bool IsKnown() const { return !samples_.empty(); }
  // From this clock to rank 0's, by the readings so far; error_ns bounds the difference.
  const ClockFit& fit() const { return fit_; }
  std::span<const ClockSample> samples() const { return samples_; }  // newest 256

 private:
  std::optional<std::int64_t> asked_ns_;  // time of the unanswered question
  int left_ = 0;                          // questions left in this reading
  std::int64_t next_ns_ = INT64_MIN;      // start of the next reading
  ClockSample best_;
  std::vector<ClockSample> samples_;
  ClockFit fit_;
};

}  // namespace foretrain
