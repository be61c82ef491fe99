// Splits exposed communication into waiting for the last rank and moving bytes. Waits before a
// communication's span starts are idle time (idle.h).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "traces/timeline.h"

namespace foretrain {

// Communication groups. Outer index: Queue; inner: rank; equal numbers form a group. -1 or a short
// vector: unknown. For queues of sends and receives the group is the ranks of one pipeline.
struct CommunicationGroups {
  std::array<std::vector<int>, kQueueCount> of{};
};

constexpr bool IsTransfer(Queue queue) {
  return queue >= Queue::kSendNext && queue <= Queue::kRecvPrev;
}

// The number of the group in which the span communicates; -1 if it is unknown, or no communication
// of its queue's group (sums of scalars).
int GroupOf(const CommunicationGroups& groups, const Span& span);

// The id of the send of a transfer, given that of the send or the receive, which is valid.
OpId SendOf(OpId transfer);

// Time of one rank in one window with communication and no compute. The sum is
// ClassTimes::exposed_communication_ns.
struct ExposedParts {
  std::int64_t wire_ns = 0;     // all members had arrived
  std::int64_t skew_ns = 0;     // this rank had started, another member had not
  std::int64_t unknown_ns = 0;  // members or their spans are unknown

  std::int64_t Sum() const { return wire_ns + skew_ns + unknown_ns; }
  ExposedParts& operator+=(const ExposedParts& other);
  bool operator==(const ExposedParts&) const = default;
};

// The parts of each rank in `step`, summed over the ranks that have a window of the step.
//
//   timeline  sorted, with step windows
//   groups    as above
//   together  true if spans begin when all have arrived, as in a forecast: everything is then wire
//
// A communication's last arrival is the latest start of its op on any rank of its group in the same
// step; a send and its receive are one op. Where spans overlap, a moment is wire if any of them
// moves bytes, else unknown if any of them is unknown. O(n log n).
ExposedParts ExposedPartsOf(const Timeline& timeline, const CommunicationGroups& groups,
                            std::int32_t step, bool together);

}  // namespace foretrain
