// Communication over TCP among ranks that are processes and compute in host memory: one
// authenticated connection for each two members of a communicator. Sums are taken in member order
// in fp32, bit-identical to ranks that are threads. GPUs: runtime/nccl/.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/processes/process_group.h"
#include "runtime/processes/reception.h"
#include "runtime/processes/socket_endpoint.h"
#include "runtime/run/rank_world.h"

namespace foretrain {

class SocketWorld : public RankWorld {
 public:
  // Connects this process's one rank with its peers. Errors: kUnsupported, a device with its own
  // memory; kIo; kTimeout, naming a rank that did not come; kAborted.
  static Result<std::unique_ptr<RankWorld>> Make(const WorldContext& context, ProcessGroup& group,
                                                 TransferCheck check);
  ~SocketWorld() override;
  CommunicatorSet& Rank(int rank) override;

 private:
  class Set;
  // By member; none to itself. An element is filled by one thread alone.
  using Peers = std::vector<std::optional<Connection>>;
  using PeersOf = std::map<ChannelKey, Peers>;

  SocketWorld();
  static Result<PeersOf> ConnectAll(const WorldContext& context, ProcessGroup& group,
                                    const std::vector<ChannelKey>& keys);
  static Result<void> DialLater(const WorldContext& context, ProcessGroup& group, PeersOf& peers);
  static Result<void> AcceptEarlier(const WorldContext& context, const ProcessGroup& group,
                                    const Socket& listener, PeersOf& peers);
  static Result<void> Admit(Joined joined, int rank, PeersOf& peers);

  std::unique_ptr<Set> set_;
};

// Makes the SocketWorld of the group's run; a group has one.
WorldMaker SocketWorldMaker(const std::shared_ptr<ProcessGroup>& group,
                            TransferCheck check = TransferCheck::kNone);

}  // namespace foretrain
