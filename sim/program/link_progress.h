// Runs a program without time: can every op of every rank end, and if not, who waits for whom?
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/program/link_couplings.h"

namespace foretrain {

enum class WaitKind : std::uint8_t {
  kQueue,     // behind another op of its queue
  kEdge,      // an edge
  kPeer,      // its partner on another rank has not come
  kRunAhead,  // not issued: an unfinished op is run_ahead_ops behind
  kHost,      // not issued: the host waits in an op of its own
};

// `op` of that step waits.
struct Wait {
  OpPlace op;
  std::int32_t step = 0;
  WaitKind kind = WaitKind::kQueue;
};

// Plays `steps` consecutive steps of all ranks under the rules every executor keeps: an op runs
// when it has been issued, it is first of its queue, its edges' sources have ended and its partners
// are as far. Op number n is issued when op n - run_ahead_ops has ended, if it is no send or
// receive (transfer_queues.h), and no earlier op of the host queue is unfinished. Which ready op
// goes first does not matter: none of them takes anything from another.
//
//   steps_of  one a rank, in the order of Program::ranks; edges are sorted by `to`
//
// Returns nothing when all ops end, else a circle of waits, each for the next and the last for the
// first. O(steps * (ops * queues + edges)).
std::optional<std::vector<Wait>> FindDeadlock(const Program& program,
                                              std::span<const FlatStep> steps_of,
                                              const Couplings& couplings, int run_ahead_ops,
                                              int steps);

// The circle in words, one line a wait.
std::string DescribeDeadlock(const Program& program, std::span<const FlatStep> steps_of,
                             std::span<const Wait> circle, int run_ahead_ops);

}  // namespace foretrain
