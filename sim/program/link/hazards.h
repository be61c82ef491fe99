// Records who touched each byte of a rank's arenas last. One mechanism finds data hazards, hazards
// of reused memory and hazards between steps.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/program/link/clocks.h"
#include "sim/program/link/step.h"

namespace foretrain {

// The arenas cut at every address where an access begins or ends. Each piece knows its last writer
// and, for each queue, the latest reader since. Requires buffers with offsets.
//
// A buffer has one birth and one death. If ops touch parts of it, each waits for all previous users
// of its memory. Its last op counts as a writer of all its bytes: the next user of any of its
// memory waits for all its users.
//
// An access visits the pieces it covers, so a step costs O(sum of pieces of its accesses): one
// piece for most, more if a large tensor reuses the memory of small ones.
class HazardMap {
 public:
  HazardMap(const FlatStep& step, const RankProgram& rank);

  // Visits op `op` in step `step_number`; ops must come in order of their numbers. `after` receives
  // the latest op of each lane that it must follow. A read follows the last writer (read after
  // write). A write follows the last writer and the readers since (write after write, write after
  // read).
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
    std::int32_t birth = -1;  // index into births_ if its buffer is touched in parts; -1 otherwise
  };
  // Pieces of a buffer that is touched in parts, and the ops that used this memory before it.
  struct Birth {
    std::int32_t first = 0;
    std::int32_t last = 0;       // exclusive
    std::int32_t first_op = -1;  // the buffer's first op
    std::int32_t number = -1;    // op number, through all steps, at which `after` was collected
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

// Adds the ops that the first op of an instruction must follow because of Instruction::after: all
// ops of that earlier instruction in the same step.
void AddThrottle(const RankProgram& rank, const FlatStep& step, std::int32_t op, int step_number,
                 LaneOps& after);

// First address of each space if a rank's arenas are laid end to end.
std::array<std::int64_t, kSpaceCount> SpaceBases(const RankProgram& rank);

}  // namespace foretrain
