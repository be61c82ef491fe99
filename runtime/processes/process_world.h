// Communication over UCX among ranks that are processes and compute in host memory: through shared
// memory on one machine, over the network between machines. Sums are taken in member order in fp32,
// bit-identical to ranks that are threads. GPUs: runtime/nccl/.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "runtime/processes/process_group.h"
#include "runtime/processes/transfer_codes.h"
#include "runtime/run/rank_world.h"
#include "runtime/ucx/ucx_worker.h"

namespace foretrain {

class ProcessWorld : public RankWorld {
 public:
  // Connects this process's one rank with its peers. Errors: kUnsupported, a device with its own
  // memory; kIo; kTimeout, naming a rank that did not come; kInvalidArgument, ranks have different
  // versions of UCX or different checks; kAborted.
  static Result<std::unique_ptr<RankWorld>> Make(const WorldContext& context, const UcxApi& ucx,
                                                 ProcessGroup& group, TransferCheck check);
  ~ProcessWorld() override;
  CommunicatorSet& Rank(int rank) override;

 private:
  class Set;
  // A worker for each communicator: the threads of a rank then share nothing.
  using Workers = std::map<ChannelKey, std::unique_ptr<UcxWorker>>;

  explicit ProcessWorld(std::unique_ptr<UcxContext> ucx);
  static Result<Workers> ConnectAll(const WorldContext& context, const UcxContext& ucx,
                                    ProcessGroup& group, const std::vector<ChannelKey>& keys);
  static Result<void> Greet(const WorldContext& context, int rank, const Workers& workers);

  const std::unique_ptr<UcxContext> ucx_;  // outlives set_
  std::unique_ptr<Set> set_;
};

// Makes the ProcessWorld of the group's run; a group has one.
WorldMaker ProcessWorldMaker(const UcxApi& ucx, const std::shared_ptr<ProcessGroup>& group,
                             TransferCheck check = TransferCheck::kNone);

}  // namespace foretrain
