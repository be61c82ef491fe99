#include "runtime/nccl/nccl_world.h"

#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace foretrain {

Result<std::unique_ptr<RankWorld>> NcclWorld::Make(const WorldContext& context, const NcclApi& nccl,
                                                   std::shared_ptr<IdStore> store) {
  std::set<int> devices;
  for (const LocalRank& local : context.local) {
    if (devices.insert(local.device).second) continue;
    return Fail(ErrorCode::kInvalidArgument,
                "rank " + std::to_string(local.rank) + ": another rank has device " +
                    std::to_string(local.device) + " too, and NCCL takes one rank a device");
  }
  std::unique_ptr<NcclWorld> world(new NcclWorld(nccl, std::move(store)));
  for (const LocalRank& local : context.local) {
    world->sets_[local.rank] = std::make_unique<NcclSet>(
        local.rank, world->nccl_, context.api, *world->store_, context.clock, context.control,
        NcclOptions{local.device, context.timeout_ns});
  }
  FT_TRY(world->Open(context));
  return std::unique_ptr<RankWorld>(std::move(world));
}

// Each rank opens its communicators in a thread of its own, in the same order: creation blocks
// until all members have joined.
Result<void> NcclWorld::Open(const WorldContext& context) {
  std::vector<std::thread> threads;
  for (const LocalRank& local : context.local) {
    threads.emplace_back([this, &context, rank = local.rank] {
      for (const RankProgram& program : context.program.ranks) {
        if (program.rank != rank) continue;
        for (const ChannelKey& key : KeysOf(context.program, program)) {
          const auto opened = sets_.at(rank)->Open(key);
          if (opened.has_value()) continue;
          Error error = opened.error();
          if (error.code == ErrorCode::kAborted) return;
          error.message = "rank " + std::to_string(rank) + ": " + error.message;
          context.control.Fail(rank, std::move(error));  // the other ranks wait for this one
          return;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (auto error = context.control.FirstError()) return tl::unexpected<Error>(*std::move(error));
  return {};
}

// All ranks end at once: finalizing waits for the peers.
NcclWorld::~NcclWorld() {
  std::vector<std::thread> threads;
  for (auto& [rank, set] : sets_) {
    threads.emplace_back([&at = set] { at.reset(); });
  }
  for (std::thread& thread : threads) thread.join();
}

// Without a store, each world gets a new one: ids of an earlier run must not be found again.
WorldMaker NcclWorldMaker(const NcclApi& nccl, std::shared_ptr<IdStore> store) {
  return [nccl, store](const WorldContext& context) {
    return NcclWorld::Make(
        context, nccl,
        store != nullptr ? store : std::make_shared<ThreadIdStore>(context.timeout_ns));
  };
}

}  // namespace foretrain
