// The ranks of a process that have a device each, with NCCL between them and those of other
// processes. Leaves out one communicator (runtime/nccl/nccl_endpoint.h) and which rank has which
// device (the caller).
#pragma once

#include <map>
#include <memory>

#include "runtime/nccl/nccl_set.h"
#include "runtime/processes/id_store.h"
#include "runtime/rank_world.h"

namespace foretrain {

class NcclWorld : public RankWorld {
 public:
  // Makes all communicators that the program's ranks of this process call, each rank's in a thread
  // of its own, which waits there for the other members.
  //
  //   store  of all ranks, shared with whoever else keeps values there
  //
  // Errors: kInvalidArgument, two ranks of this process have one device, which NCCL refuses; those
  // of NcclSet::Open, with the rank.
  static Result<std::unique_ptr<RankWorld>> Make(const WorldContext& context, const NcclApi& nccl,
                                                 std::shared_ptr<IdStore> store);
  // Ends the communicators of all ranks at once: each waits for the others'.
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

// Makes NcclWorlds with the library `nccl`. `store`: null for ranks that are all of this process.
WorldMaker NcclWorldMaker(const NcclApi& nccl, std::shared_ptr<IdStore> store = nullptr);

}  // namespace foretrain
