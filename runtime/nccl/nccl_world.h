// The ranks of a process with one device each, connected by NCCL to each other and to ranks of
// other processes. One communicator: runtime/nccl/nccl_endpoint.h. The caller assigns devices.
#pragma once

#include <map>
#include <memory>

#include "runtime/nccl/nccl_set.h"
#include "runtime/processes/id_store.h"
#include "runtime/run/rank_world.h"

namespace foretrain {

class NcclWorld : public RankWorld {
 public:
  // Creates all communicators that this process's ranks use. Each rank has a thread, which waits
  // for the other members.
  //
  //   store  shared by all ranks, and by others that keep values there
  //
  // Errors: kInvalidArgument, two ranks of this process share a device, which NCCL refuses; those
  // of NcclSet::Open, with the rank.
  static Result<std::unique_ptr<RankWorld>> Make(const WorldContext& context, const NcclApi& nccl,
                                                 std::shared_ptr<IdStore> store);
  // Ends the communicators of all ranks at once, since each waits for the others.
  ~NcclWorld() override;

  CommunicatorSet& Rank(int rank) override { return *sets_.at(rank); }

 private:
  NcclWorld(const NcclApi& nccl, std::shared_ptr<IdStore> store)
      : nccl_(nccl), store_(std::move(store)) {}
  Result<void> Open(const WorldContext& context);

  const NcclApi nccl_;
  const std::shared_ptr<IdStore> store_;
  std::map<int, std::unique_ptr<NcclSet>> sets_;  // by rank
};

// Makes NcclWorlds with the library `nccl`. `store`: null if all ranks are in this process.
WorldMaker NcclWorldMaker(const NcclApi& nccl, std::shared_ptr<IdStore> store = nullptr);

}  // namespace foretrain
