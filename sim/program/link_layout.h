// Life and place of each buffer of a rank.
#pragma once

#include "sim/program/link_step.h"

namespace foretrain {

// Which buffers may share memory, from freest to strictest. Memory that one queue used and another
// uses next makes the second wait for the first.
enum class Reuse {
  // As kAny, and where that leaves more than 5 % above what is in use at once, buffers are placed
  // anew with all lives known (link_pack.h), in each space by itself. What kAny holds or keeps back
  // is so for as long, but then anyone may have it. State stays, and so does what receives fill.
  kPacked,
  // All, with two rules that keep transfers beside the compute, each at the cost of about one
  // buffer a queue:
  // - what a queue other than `compute` used last is free again once that queue has been given its
  //   next op, or, but for sends, once compute is given its next instruction but one; so compute
  //   does not wait for the transfer just issued;
  // - what a receive, load or copy in fills is kept for such fills, and filled again only if it was
  //   free before the queue's op before; so the next transfer does not wait for the compute just
  //   issued.
  kAny,
  // As kAny, but what a send or receive touches is shared as under kOwnQueue: a send waits for its
  // peer, whose own ops may wait for this rank, so that waits for memory can close a circle.
  kNotPeers,
  // Only what the queue of the new buffer's first op alone used last: within a step no op waits for
  // memory, at the price of much of it.
  kOwnQueue,
};

// Sets first_op, last_op and offset of all buffers of `rank`, and its arena_bytes. State comes
// first, in order of number; the others by first access in issue order, into memory that is free
// then, and live through their last accessor. A buffer that no op touches has no place: its fields
// stay -1.
//
// Best fit is tried first, then first fit, then first fit with what lives within one instruction at
// the upper end; the layout of the smallest arena stands, the first of equals; kPacked may put one
// of link_pack.h in its place. How long arenas are: docs/program.md.
// O(accesses + buffers * free ranges), and for kPacked that of Pack.
void LayOut(const FlatStep& step, Reuse reuse, RankProgram& rank);

}  // namespace foretrain
