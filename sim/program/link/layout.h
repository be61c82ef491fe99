// Assigns each buffer of a rank its lifetime and address.
#pragma once

#include "sim/program/link/step.h"

namespace foretrain {

// Which buffers may share memory, from most to least sharing. If one queue used memory and another
// uses it next, the second waits for the first.
enum class Reuse {
  // As kAny. If an arena is more than 5 % above the bytes in use at once, its space is packed again
  // with all lifetimes known (link/pack.h). Memory that kAny holds back stays held for as long, but
  // any buffer may then take it. State and memory that receives fill keep their place.
  kPacked,
  // All buffers, with two rules that let transfers overlap with compute, each at the cost of about
  // one buffer per queue:
  // - Memory that a queue other than `compute` used last is free again once that queue has its next
  // op. Unless it was a send, it is also free once compute has its next instruction but one. So
  // compute does not wait for the transfer just issued.
  // - Memory that a receive, load or copy-in fills is reserved for such fills. It is filled again
  // only if it was free before the queue's previous op. So the next transfer does not wait for the
  // compute just issued.
  kAny,
  // As kAny, but buffers that a send or receive touches are shared as under kOwnQueue. A send waits
  // for its peer, whose own ops may wait for this rank, so that waits for memory can form a cycle.
  kNotPeers,
  // Only memory that the queue of the new buffer's first op alone used last. Within a step no op
  // waits for memory; the arena is much larger.
  kOwnQueue,
};

// Sets first_op, last_op and offset of all buffers of `rank`, and its arena_bytes. State comes
// first, in order of number. Other buffers follow by first access in issue order, into memory that
// is free then, and live through their last access. A buffer that no op touches gets no address:
// its fields stay -1.
//
// Tries best fit, then first fit, then first fit with buffers of one instruction at the upper end.
// The smallest arena wins, the first among equals; kPacked may replace it by the result of
// link/pack.h. docs/program.md compares sizes of arenas.
// O(accesses + buffers * free ranges), plus Pack for kPacked.
void LayOut(const FlatStep& step, Reuse reuse, RankProgram& rank);

}  // namespace foretrain
