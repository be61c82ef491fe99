// Peak memory of each rank of a linked program, by space and category, in issue order. Leaves out
// what lies outside the program (contexts, library workspaces) and alignment.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/program/program.h"

namespace foretrain {

// The fullest moment of one space.
struct SpacePeak {
  std::int64_t bytes = 0;
  std::int32_t op =
      -1;  // op number of the rank's step at which it is first reached; -1: state alone
  std::array<std::int64_t, kCategoryCount> parts{};  // live then; they sum to `bytes`
};

struct RankPeak {
  int rank = 0;
  std::array<SpacePeak, kSpaceCount> spaces{};
};

// The peak of each rank of `program`, which Link has given lives: a buffer that is not persistent
// is live from first_op to last_op, both included; one that no op touches is never live. The order
// is that of issue, so that the peak does not depend on timing. Bytes are the buffers' own; the
// arena adds alignment and fragmentation. O(buffers + ops).
std::vector<RankPeak> LinkedPeak(const Program& program);

}  // namespace foretrain
