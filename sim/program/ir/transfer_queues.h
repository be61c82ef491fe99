// The queues that carry sends to and receives from pipeline neighbours, and their effect on how far
// a host runs ahead.
//
// A host issues op n once op n - run_ahead has ended, which bounds the memory a device holds. Sends
// and receives are exempt: they end when a neighbour issues the other half, which says nothing
// about this rank's own work.
// Otherwise two neighbours whose oldest unfinished ops are sends to each other would stop before
// either issues the receive that the other waits for. That happens with interleaved chunks and
// rounds of more micro-batches than stages, although both orders of issue are compatible. With this
// exemption, a program that runs with hosts that issue every op at once never stops for its hosts.
//
// A buffer that is sent is written again a step later, and a received one is read within a step. So
// no transfer of a compiled program lags by more than a step and run_ahead ops; executors rely on
// that bound and keep it.
#pragma once

#include "traces/kinds.h"

namespace foretrain {

constexpr bool IsTransferQueue(Queue queue) {
  return queue == Queue::kSendNext || queue == Queue::kSendPrev || queue == Queue::kRecvNext ||
         queue == Queue::kRecvPrev;
}

}  // namespace foretrain
