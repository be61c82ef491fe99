// Finds the ops of several ranks that run together: a collective on all members of its group, a
// send with its receive. Leaves out whether they ever meet (link/progress.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/program/link/step.h"

namespace foretrain {

struct OpPlace {
  std::int32_t rank = 0;  // index into Program::ranks
  std::int32_t op = 0;    // number in that rank's step
};

struct Couplings {
  std::vector<std::vector<std::int32_t>> of_op;  // coupling by rank index and op; -1 if uncoupled
  std::vector<std::int32_t> first;  // first member of each coupling, and one past the last
  std::vector<OpPlace> members;

  std::int32_t Of(OpPlace place) const {
    return of_op[static_cast<std::size_t>(place.rank)][static_cast<std::size_t>(place.op)];
  }
  std::span<const OpPlace> MembersOf(std::int32_t coupling) const {
    const auto i = static_cast<std::size_t>(coupling);
    return std::span(members).subspan(static_cast<std::size_t>(first[i]),
                                      static_cast<std::size_t>(first[i + 1] - first[i]));
  }
};

// Finds the partners of every communication op of a step.
//
//   steps  one per rank of the program, in the same order
//
// The k-th send of a rank to a neighbour meets the k-th receive from it there, separately for each
// direction of the pipeline. The k-th collective of a group on a queue is one collective on all
// members. Members that are not in Program::ranks behave like others of their class and are left
// out; an op whose partners are all absent is uncoupled.
//
// Errors: kInvalidArgument, with the ops: partners of different number, kind, bytes or elements; a
// send and its receive, or members of a tensor- or data-parallel group, that serve different
// instructions; transfers of one direction on two queues; a group that the rank has not or is no
// member of. O(ops).
Result<Couplings> Couple(const Program& program, std::span<const FlatStep> steps);

}  // namespace foretrain
