// Life and place of each buffer of a rank.
#pragma once

#include "sim/program/link_step.h"

namespace foretrain {

// Which buffers may share memory, from freest to strictest. Memory that one queue used and another
// uses next makes the second wait for the first.
//
//   kAny       all, with two rules that keep transfers beside the compute:
//              - what a queue other than `compute` used last is free again once that queue has been
//                given its next op, so that compute does not wait for the transfer just issued;
//              - what a receive, load or copy in fills is kept for such fills, and filled again
//              only
//                if it was free before the queue's op before, so that the next transfer does not
//                wait for the compute just issued.
//              Each costs about one buffer a queue.
//   kNotPeers  as kAny, but what a send or receive touches is shared as under kOwnQueue. A send
//   waits
//              for its peer, whose own ops may wait for this rank: memory could close a circle.
//   kOwnQueue  only what the queue of the new buffer's first op alone used last: within a step no
//   op
//              waits for memory, at the price of much of it
enum class Reuse { kAny, kNotPeers, kOwnQueue };

// Sets first_op, last_op and offset of all buffers of `rank`, and its arena_bytes. State comes
// first, in order of number; the others by first access in issue order, best fit, and live through
// their last accessor. A buffer that no op touches has no place: its fields stay -1.
// O(accesses + buffers * free ranges).
void LayOut(const FlatStep& step, Reuse reuse, RankProgram& rank);

}  // namespace foretrain
