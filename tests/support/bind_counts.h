// Binds a program to the choices of its routers in one step: ops whose sizes depend on counts get
// their true sizes, so that a simulation has the bytes and work of that step. Leaves out the origin
// of the counts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "sim/program/ir/program.h"

namespace foretrain {

// The counts of (token, expert) pairs that one router chose in one micro-batch, as one rank knows
// them: [members, pieces, experts], for all members of its expert-parallel group.
struct RouterCounts {
  int rank = 0;
  int block = 0;
  int micro_batch = 0;
  std::string router;  // one of the block's routers (RouterOf in row_counts.h)
  std::vector<std::int32_t> counts;
};

// Returns `program`, which must be linked, with every instruction that depends on counts on a block
// of its own with the true numbers of rows. Buffers, bindings, edges and the hash stay: memory is
// sized for the upper bound, whatever came.
//
// Errors: kInvalidArgument, counts that are missing for a router of an instruction or have the
// wrong length. O(ops of the instructions that depend on counts).
Result<Program> BindCounts(const Program& program, std::span<const RouterCounts> counts);

}  // namespace foretrain
