// Connects ranks over TCP: one authenticated connection for each two members of a communicator.
#pragma once

#include <vector>

#include "runtime/processes/peer_transport.h"
#include "runtime/processes/process_group.h"

namespace foretrain {

// Connects this process's rank with its peers. Where each listens travels through the group. The
// listener closes before this returns. Errors: kIo; kTimeout, naming a rank that did not come;
// kAborted; those of the group's values.
Result<Transports> ConnectBySockets(const WorldContext& context, ProcessGroup& group,
                                    const std::vector<ChannelKey>& keys);

}  // namespace foretrain
