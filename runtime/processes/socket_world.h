// Communication over TCP among ranks that are processes and compute in host memory: one connection
// for each two members of a communicator. Sums are taken in member order in fp32, bit-identical to
// ranks that are threads. GPUs: runtime/nccl/.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "runtime/processes/process_group.h"
#include "runtime/processes/socket.h"
#include "runtime/run/rank_world.h"

namespace foretrain {

class SocketWorld : public RankWorld {
 public:
  // Connects this process's one rank with its peers. Errors: kUnsupported, a device with its own
  // memory; kIo; kTimeout, naming a rank that did not come; kAborted.
  static Result<std::unique_ptr<RankWorld>> Make(const WorldContext& context, ProcessGroup& group);
  ~SocketWorld() override;
  CommunicatorSet& Rank(int rank) override;

 private:
  class Set;
  using Sockets = std::map<ChannelKey, std::vector<Socket>>;  // by member; none to itself

  SocketWorld();
  static Result<Sockets> ConnectAll(const WorldContext& context, ProcessGroup& group,
                                    const std::vector<ChannelKey>& keys);
  static Result<void> ConnectToLater(const WorldContext& context, ProcessGroup& group,
                                     const std::vector<ChannelKey>& keys, Sockets& sockets);
  static Result<bool> AcceptOne(const Socket& listener, const ProcessGroup& group,
                                Sockets& sockets);

  std::unique_ptr<Set> set_;
};

// Makes SocketWorlds in the group.
WorldMaker SocketWorldMaker(const std::shared_ptr<ProcessGroup>& group);

}  // namespace foretrain
