#include "runtime/processes/process_world.h"

#include <unistd.h>

#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "base/text.h"
#include "runtime/processes/peer_endpoint.h"
#include "runtime/processes/sockets/socket_mesh.h"
#include "runtime/processes/wire/socket.h"
#include "runtime/ucx/ucx_mesh.h"

namespace foretrain {
namespace {

class Endpoints : public CommunicatorSet {
 public:
  Endpoints(const WorldContext& context, int rank, Transports transports,
            const std::string& run_key, TransferCheck check)
      : rank_(rank) {
    for (auto& [key, transport] : transports) {
      endpoints_[key] =
          std::make_unique<PeerEndpoint>(context, key, rank, std::move(transport),
                                         TransferCodes(check, run_key, key, key.MemberOf(rank)));
    }
  }
  int rank() const { return rank_; }

  // All peers are connected already; this only finds the endpoint.
  Result<Communicator*> Open(const std::vector<int>& members, GroupKind group, Queue queue,
                             OpKind kind) override {
    FT_ASSIGN(const ChannelKey key, KeyOf(rank_, members, group, queue, kind));
    const auto found = endpoints_.find(key);
    FT_CHECK(found != endpoints_.end());  // KeysOf lists all of the program's
    return found->second.get();
  }

 private:
  const int rank_;
  std::map<ChannelKey, std::unique_ptr<PeerEndpoint>> endpoints_;
};

// The one rank of this process.
class ProcessWorld : public RankWorld {
 public:
  ProcessWorld(std::shared_ptr<const Ucx> ucx, std::unique_ptr<Endpoints> endpoints)
      : ucx_(std::move(ucx)), endpoints_(std::move(endpoints)) {}
  CommunicatorSet& Rank(int rank) override {
    FT_CHECK(rank == endpoints_->rank());
    return *endpoints_;
  }

 private:
  const std::shared_ptr<const Ucx> ucx_;  // outlives endpoints_
  const std::unique_ptr<Endpoints> endpoints_;
};

// Both transports read and write host memory.
Result<std::unique_ptr<RankWorld>> MakeWorld(const WorldContext& context, ProcessGroup& group,
                                             const std::shared_ptr<const Ucx>& ucx,
                                             TransferCheck check) {
  if (context.api.asynchronous != 0) {
    return Fail(ErrorCode::kUnsupported, std::string(context.api.name) +
                                             ": ranks that are processes and have no NCCL "
                                             "compute in the host's memory");
  }
  FT_CHECK(context.local.size() == 1);
  const int rank = context.local.front().rank;
  std::vector<ChannelKey> keys;
  for (const RankProgram& program : context.program.ranks) {
    if (program.rank == rank) keys = KeysOf(context.program, program);
  }
  FT_TRY(group.Agree("--check-transfers", std::to_string(static_cast<int>(check))));
  FT_ASSIGN(Transports transports, ucx != nullptr ? ConnectByUcx(context, group, *ucx, keys)
                                                  : ConnectBySockets(context, group, keys));
  return std::unique_ptr<RankWorld>(std::make_unique<ProcessWorld>(
      ucx,
      std::make_unique<Endpoints>(context, rank, std::move(transports), group.run_key(), check)));
}

// Ranks with equal texts reach each other's memory: UCX opens it by /proc/PID/fd, and compares IPC
// namespaces. Containers may share a network without either.
std::string PlaceOf(const Ucx& ucx) {
  std::string place = "UCX " + ucx.Version() + " of user " + std::to_string(geteuid());
  for (const char* space : {"ipc", "pid"}) {
    std::error_code unknown;
    const auto link = std::filesystem::read_symlink(std::string("/proc/self/ns/") + space, unknown);
    place += unknown ? std::string(", no ") + space : ", " + link.string();
  }
  return place;
}

}  // namespace

// Each rank tells its place, and rank 0 why they share no memory, if so.
Result<TransportChoice> ChooseTransport(ProcessGroup& group,
                                        const Result<std::shared_ptr<const Ucx>>& ucx) {
  if (!IsLoopback(group.address())) return TransportChoice{nullptr, "TCP"};
  const auto goes_on = [] { return false; };
  const std::string mine =
      ucx.has_value() ? PlaceOf(**ucx) : "no UCX (" + Printable(ucx.error().message, 200) + ")";
  FT_TRY(group.Put(group.rank(), "shared memory", mine));
  if (group.rank() == 0) {
    std::string why = ucx.has_value() ? "" : "rank 0 has " + mine;
    for (int rank = 1; rank < group.world() && why.empty(); ++rank) {
      FT_ASSIGN(const std::string place, group.Get(rank, "shared memory", goes_on));
      if (place == mine) continue;
      why = "rank " + std::to_string(rank) + " has " + Printable(place, 300) + ", rank 0 " + mine;
    }
    FT_TRY(group.Put(0, "transport", why));
  }
  FT_ASSIGN(const std::string why, group.Get(0, "transport", goes_on));
  if (!why.empty() || !ucx.has_value()) {
    return TransportChoice{nullptr, "TCP, as shared memory needs UCX 1.13 or later: " + why};
  }
  return TransportChoice{*ucx, "shared memory, UCX " + (*ucx)->Version()};
}

WorldMaker ProcessWorldMaker(const std::shared_ptr<ProcessGroup>& group,
                             const std::shared_ptr<const Ucx>& ucx, TransferCheck check) {
  return InGroup(group, [group, ucx, check](const WorldContext& context) {
    return MakeWorld(context, *group, ucx, check);
  });
}

}  // namespace foretrain
