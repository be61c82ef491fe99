// What the clock of rank 0's process says when this one's says something: read by exchanges of
// messages at the start and each second from there on, because clocks of two machines drift. Leaves
// out who sends them (runtime/processes/process_group.h).
//
//   asks at 1,000 ─────► answer 71,040 ─────► came at 1,100    71,040 is 1,050, give or take 50
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "profiler/clock_fit.h"

namespace foretrain {

// One thread at a time. Times are nanoseconds: `now_ns` on this clock, answers on rank 0's.
class PeerClock {
 public:
  // Whether a question is to be sent now: the first of a reading.
  bool Asks(std::int64_t now_ns);
  // An answer came. Whether the next question is to be sent at once: a reading is the shortest of
  // five exchanges.
  bool Answered(std::int64_t answer_ns, std::int64_t now_ns);

  bool IsKnown() const { return !samples_.empty(); }
  // From this clock to rank 0's, by the readings so far; its error_ns is how far both may be apart.
  const ClockFit& fit() const { return fit_; }
  std::span<const ClockSample> samples() const { return samples_; }  // the newest 256

 private:
  std::optional<std::int64_t> asked_ns_;  // of a question without an answer
  int left_ = 0;                          // questions of the reading under way
  std::int64_t next_ns_ = INT64_MIN;      // when the next reading begins
  ClockSample best_;
  std::vector<ClockSample> samples_;
  ClockFit fit_;
};

}  // namespace foretrain
