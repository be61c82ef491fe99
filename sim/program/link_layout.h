// Life and place of each buffer of a rank.
#pragma once

#include "sim/program/link_step.h"

namespace foretrain {

// Which buffers may share memory, from freest to strictest. Memory that one queue used and another
// uses next makes the second wait for the first. Where the first is a send or receive that waits
// for its peer, whose own ops may wait for this rank, such waits can close a circle.
enum class Reuse {
  kAny,       // all
  kNotPeers,  // a buffer that a send or receive touches: only as kOwnQueue
  kOwnQueue,  // only what the queue of the new buffer's first op alone used last: no op waits for
              // memory
};

// Sets first_op, last_op and offset of all buffers of `rank`, and its arena_bytes. State comes
// first, in order of number; the others by first access in issue order, best fit, and live through
// their last accessor. A buffer that no op touches has no place: its fields stay -1.
// O(accesses + buffers * free ranges).
void LayOut(const FlatStep& step, Reuse reuse, RankProgram& rank);

}  // namespace foretrain
