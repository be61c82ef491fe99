// Communication among ranks that are processes and compute in host memory: through shared memory or
// sockets. Sums are taken in member order in fp32, bit-identical to ranks that are threads. GPUs:
// runtime/nccl/.
#pragma once

#include <memory>
#include <string>

#include "runtime/processes/process_group.h"
#include "runtime/processes/transfer_codes.h"
#include "runtime/run/rank_world.h"
#include "runtime/ucx/ucx.h"

namespace foretrain {

// How a group's ranks exchange tensors.
struct TransportChoice {
  std::shared_ptr<const Ucx> ucx;  // null: over sockets; shared with the group's world
  std::string text;                // on rank 0: "shared memory, UCX 1.13.1"
};

// Chooses shared memory if all ranks are on one machine and each reaches the others' by the same
// version of UCX, and sockets otherwise: one transport for all pairs, because a call waits for all
// its members at once. All ranks of the group call it once.
//
//   ucx  result of OpenUcx. That UCX is missing is no error: `text` says it.
//
// Errors: those of the group's values.
Result<TransportChoice> ChooseTransport(ProcessGroup& group,
                                        const Result<std::shared_ptr<const Ucx>>& ucx);

// Makes the world of a group's run; a group has one.
//
//   ucx  null: over sockets
//
// The world's errors: kUnsupported, a device with its own memory; kInvalidArgument, ranks have
// different checks; kIo; kTimeout, naming a rank that did not come; kAborted.
WorldMaker ProcessWorldMaker(const std::shared_ptr<ProcessGroup>& group,
                             const std::shared_ptr<const Ucx>& ucx,
                             TransferCheck check = TransferCheck::kNone);

}  // namespace foretrain
