// Exposed communication in two: waiting for the rank that came last, and moving bytes. Leaves out
// waits before a communication's span begins, which are idle time (idle.h).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "traces/timeline.h"

namespace foretrain {

// Which ranks communicate with one another. Outer index: Queue; inner: rank; equal numbers, one
// group. -1, or a vector that is too short: unknown. Of the queues of sends and receives the ranks
// of one pipeline.
struct CommunicationGroups {
  std::array<std::vector<int>, kQueueCount> of{};
};

// Time of one rank in one window in which it communicates and nothing computes. The sum is
// ClassTimes::exposed_communication_ns.
struct ExposedParts {
  std::int64_t wire_ns = 0;     // every member had come
  std::int64_t skew_ns = 0;     // it had begun, another member had not
  std::int64_t unknown_ns = 0;  // spans of other members are missing, or who they are

  std::int64_t Sum() const { return wire_ns + skew_ns + unknown_ns; }
  ExposedParts& operator+=(const ExposedParts& other);
  bool operator==(const ExposedParts&) const = default;
};

// The parts of each rank in `step`, summed over the ranks that have a window of it.
//
//   timeline  sorted, with step windows
//   groups    as above
//   together  whether spans begin when all have come, as those of a forecast do: then all is wire
//
// A communication's last arrival is the latest start of its op on any rank of its group, of the
// same step; a send and its receive are one op. Where spans run beside one another a moment is wire
// if any of them moves bytes, else unknown if of any of them it is. O(n log n).
ExposedParts ExposedPartsOf(const Timeline& timeline, const CommunicationGroups& groups,
                            std::int32_t step, bool together);

}  // namespace foretrain
