// Connects ranks of one machine through shared memory: a transport for each communicator of a rank,
// so that its threads share nothing.
#pragma once

#include <vector>

#include "runtime/processes/peer_transport.h"
#include "runtime/processes/process_group.h"
#include "runtime/ucx/ucx.h"

namespace foretrain {

// Connects this process's rank with its peers. Addresses travel through the group. `ucx` outlives
// the transports. Errors: kIo; those of the group's values.
Result<Transports> ConnectByUcx(const WorldContext& context, ProcessGroup& group, const Ucx& ucx,
                                const std::vector<ChannelKey>& keys);

}  // namespace foretrain
