// Bytes that the copies of one step move, by route. Leaves out loads of batches and communication.
#pragma once

#include <cstdint>

#include "sim/program/ir/program.h"

namespace foretrain {

struct CopiedBytes {
  std::int64_t to_device = 0;
  std::int64_t from_device = 0;
  std::int64_t read = 0;     // from NVMe
  std::int64_t written = 0;  // to NVMe
};

// Copies of one rank of a linked program in one step. Each copy counts its bytes once per end.
// O(ops).
CopiedBytes CopiedBytesOf(const Program& program, const RankProgram& rank);

}  // namespace foretrain
