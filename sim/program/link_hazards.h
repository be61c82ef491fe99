// Who touched each byte of a rank's arenas last: the one mechanism behind data hazards, hazards of
// reused memory and hazards between steps.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/program/link_clocks.h"
#include "sim/program/link_step.h"

namespace foretrain {

// The arenas cut at every address where an access begins or ends; each piece knows its last writer
// and the latest reader since on each queue. Buffers must have offsets.
//
// A buffer has one birth and one death: where ops touch parts of it, each waits for all that lay
// anywhere in its memory before, and its last op counts as a writer of all its bytes, so that
// whoever uses any of its memory next waits for all that used it.
//
// An access visits the pieces it covers, so that a step costs O(sum of pieces of its accesses):
// one piece for most, more where a large tensor lies on what small ones used before.
class HazardMap {
 public:
  HazardMap(const FlatStep& step, const RankProgram& rank);

  // Visits op `op` in step `step_number`, in order of their numbers. `after` receives the latest op
  // of each lane that it must follow: the last writer of what it reads (read after write), the last
  // writer and the readers since of what it writes (write after write, write after read).
  void Visit(std::int32_t op, int step_number, LaneOps& after);

 private:
  struct Piece {
    std::int32_t writer = -1;
    std::uint8_t writer_lane = 0;
    std::uint32_t lanes_that_read = 0;  // since the writer, one bit a lane
    LaneOps readers = kNoOps;
  };
  struct Range {
    std::int32_t first = 0;
    std::int32_t last = 0;  // exclusive
    bool writes = false;
    std::int32_t birth = -1;  // of a buffer that is touched in parts: its place in births_
  };
  // The memory of such a buffer, and what its ops must follow: those who had it before.
  struct Birth {
    std::int32_t first = 0;
    std::int32_t last = 0;       // exclusive
    std::int32_t first_op = -1;  // of the buffer
    std::int32_t number = -1;    // of the op that `after` was found at
    LaneOps after = kNoOps;
  };

  void FollowFormer(Birth& birth, std::int32_t op, std::int32_t number, LaneOps& after) const;
  void Follow(const Piece& piece, LaneOps& after) const;
  void Read(Piece& piece, std::int32_t number, std::uint8_t lane, LaneOps& after) const;
  void Write(Piece& piece, std::int32_t number, std::uint8_t lane, LaneOps& after) const;

  const FlatStep& step_;
  std::vector<Range> ranges_;  // by access
  std::vector<Birth> births_;
  std::vector<Piece> pieces_;
};

// Adds what the first op of an instruction must follow because of its `after`: all ops of that
// instruction in the same step.
void AddThrottle(const RankProgram& rank, const FlatStep& step, std::int32_t op, int step_number,
                 LaneOps& after);

// First address of each space when a rank's arenas are laid end to end.
std::array<std::int64_t, kSpaceCount> SpaceBases(const RankProgram& rank);

}  // namespace foretrain
