// Queues on which a rank sends to its neighbours in the pipeline and receives from them, and what
// they mean for how far a host runs ahead.
//
// A host issues op n once op n - run_ahead has ended, which bounds what a device holds. Sends and
// receives are left out of that: they end when a neighbour comes to the other half, which says
// nothing of this rank's own work. Two neighbours whose oldest unfinished ops are sends to each
// other would stop issuing before either has issued the receive that the other waits for, though
// both orders of issue fit together: so with interleaved chunks and rounds of more micro-batches
// than stages. With the rule as it is, a program whose ranks could run each op right when it is
// issued, transfers beside, never stops for its hosts.
//
// What is sent is made again a step later, what was received is read within a step, so that no
// transfer of a compiled program is further behind than a step and run_ahead ops; executors rely on
// that bound and keep it.
#pragma once

#include "traces/kinds.h"

namespace foretrain {

constexpr bool IsTransferQueue(Queue queue) {
  return queue == Queue::kSendNext || queue == Queue::kSendPrev || queue == Queue::kRecvNext ||
         queue == Queue::kRecvPrev;
}

}  // namespace foretrain
