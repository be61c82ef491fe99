// Communication among ranks that are processes and compute in the host's memory: over TCP, a
// connection for each two members of a communicator. Sums are in the order of members, in fp32:
// equal to the bit to those of ranks that are threads. Leaves out GPUs (runtime/nccl/).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/processes/process_group.h"
#include "runtime/processes/socket.h"
#include "runtime/rank_world.h"

namespace foretrain {

class SocketWorld : public RankWorld {
 public:
  // Connects the process's one rank with its peers. Errors: kUnsupported, a device that has memory
  // of its own; kIo; kTimeout, naming a rank that has not come; kAborted.
  static Result<std::unique_ptr<RankWorld>> Make(const WorldContext& context, ProcessGroup& group);
  ~SocketWorld() override;
  CommunicatorSet& Rank(int rank) override;

 private:
  class Set;
  using Sockets = std::map<ChannelKey, std::vector<Socket>>;  // by member; none to itself

  SocketWorld();
  static Result<Sockets> ConnectAll(const WorldContext& context, ProcessGroup& group,
                                    const std::vector<ChannelKey>& keys);

  std::unique_ptr<Set> set_;
};

// Makes SocketWorlds in the group.
WorldMaker SocketWorldMaker(const std::shared_ptr<ProcessGroup>& group);

}  // namespace foretrain
