// Which communication ops of different ranks are one: the k-th op of each member on a group and
// queue. Leaves out times (sim/simulate) and checks (Verify).
#pragma once

#include <cstdint>
#include <vector>

#include "sim/program/program.h"

namespace foretrain {

struct MeetingMember {
  std::int32_t rank_index = 0;  // into Program::ranks
  std::int32_t op = 0;          // number in the rank's step
};
using Meeting = std::vector<MeetingMember>;

// All collectives and transfers of one step. A send meets the receive of its neighbour; members
// that are not in `program` are left out. The program is linked. O(ops).
std::vector<Meeting> MeetingsOf(const Program& program);

}  // namespace foretrain
