// Runs a program without time: can every op of every rank end and, if not, who waits for whom?
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/program/link/couplings.h"

namespace foretrain {

enum class WaitKind : std::uint8_t {
  kQueue,     // another op of its queue comes first
  kEdge,      // the source of an edge has not ended
  kPeer,      // its partner on another rank has not arrived
  kRunAhead,  // not issued: an op run_ahead_ops before it is unfinished
  kHost,      // not issued: the host waits in an earlier op
};

// One wait of a cycle: `op` of step `step` waits, and why.
struct Wait {
  OpPlace op;
  std::int32_t step = 0;
  WaitKind kind = WaitKind::kQueue;
};

// Plays `steps` consecutive steps of all ranks under the rules that every executor keeps. An op
// runs once it is issued, it is first of its queue, the sources of its edges have ended and its
// partners have arrived. Op n is issued once op n - run_ahead_ops has ended, not counting sends and
// receives (ir/transfer_queues.h). No earlier op of the host queue may be unfinished. The order
// among ready ops does not matter: none of them takes anything from another.
//
//   steps_of  one per rank, in the order of Program::ranks; edges are sorted by `to`
//
// Returns `nullopt` if all ops end, otherwise a cycle of waits: each waits for the next, and the
// last for the first. O(steps * (ops * queues + edges)).
std::optional<std::vector<Wait>> FindDeadlock(const Program& program,
                                              std::span<const FlatStep> steps_of,
                                              const Couplings& couplings, int run_ahead_ops,
                                              int steps);

// The cycle as text, one line per wait.
std::string DescribeDeadlock(const Program& program, std::span<const FlatStep> steps_of,
                             std::span<const Wait> circle, int run_ahead_ops);

}  // namespace foretrain
