// Binds a program to what routers chose in one step: ops that follow counts get their true sizes,
// so that a simulation of it has the bytes and work of that step. Leaves out where counts come
// from.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "sim/program/program.h"

namespace foretrain {

// Pairs of a token and an expert that one router chose in one micro-batch, as one rank knows them:
// [members, pieces, experts], of all members of its group of expert parallelism.
struct RouterCounts {
  int rank = 0;
  int block = 0;
  int micro_batch = 0;
  std::string router;  // of the block's (RouterOf in row_counts.h)
  std::vector<std::int32_t> counts;
};

// `program`, which is linked, with instructions that follow counts on blocks of their own, whose
// shapes say how many rows those are. Buffers, bindings, edges and the hash stay: the memory is
// that of the bound, whatever came.
//
// Errors: kInvalidArgument, counts that are missing for a router of an instruction, or of another
// length. O(ops of the instructions that follow counts).
Result<Program> BindCounts(const Program& program, std::span<const RouterCounts> counts);

}  // namespace foretrain
