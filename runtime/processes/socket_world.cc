#include "runtime/processes/socket_world.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/units.h"
#include "runtime/processes/socket_endpoint.h"

namespace foretrain {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPatienceMs = 10'000;
constexpr std::uint32_t kMostBytes = 1 << 20;

// "10.0.0.1 1234"
Result<Socket> ConnectToMesh(const std::string& where) {
  const auto blank = where.find(' ');
  FT_CHECK(blank != std::string::npos);
  return ConnectTo(where.substr(0, blank), std::atoi(where.c_str() + blank));
}

}  // namespace

class SocketWorld::Set : public CommunicatorSet {
 public:
  Set(const WorldContext& context, int rank, Sockets sockets) : rank_(rank) {
    for (auto& [key, peers] : sockets) {
      endpoints_[key] = std::make_unique<SocketEndpoint>(context, key, rank, std::move(peers));
    }
  }
  int rank() const { return rank_; }

  Result<Communicator*> Open(const std::vector<int>& members, GroupKind group, Queue queue,
                             OpKind kind) override {
    FT_ASSIGN(const ChannelKey key, KeyOf(rank_, members, group, queue, kind));
    const auto found = endpoints_.find(key);
    FT_CHECK(found != endpoints_.end());  // KeysOf has found all of the program's
    return found->second.get();
  }

 private:
  const int rank_;
  std::map<ChannelKey, std::unique_ptr<SocketEndpoint>> endpoints_;
};

SocketWorld::SocketWorld() = default;
SocketWorld::~SocketWorld() = default;

CommunicatorSet& SocketWorld::Rank(int rank) {
  FT_CHECK(rank == set_->rank());
  return *set_;
}

Result<std::unique_ptr<RankWorld>> SocketWorld::Make(const WorldContext& context,
                                                     ProcessGroup& group) {
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
  FT_ASSIGN(Sockets sockets, ConnectAll(context, group, keys));
  std::unique_ptr<SocketWorld> world(new SocketWorld);
  world->set_ = std::make_unique<Set>(context, rank, std::move(sockets));
  return std::unique_ptr<RankWorld>(std::move(world));
}

// Each connects to the ranks above it, whose systems take the connection before they do, and then
// takes those of the ranks below.
Result<SocketWorld::Sockets> SocketWorld::ConnectAll(const WorldContext& context,
                                                     ProcessGroup& group,
                                                     const std::vector<ChannelKey>& keys) {
  const int rank = group.rank();
  const auto over = [&] { return context.control.Aborted(); };
  FT_ASSIGN(const Socket listener, ListenAt(0));
  FT_TRY(group.store()->Put("mesh " + std::to_string(rank),
                            group.address() + " " + std::to_string(PortOf(listener))));
  Sockets sockets;
  std::map<int, std::string> addresses;
  std::size_t expected = 0;
  for (const ChannelKey& key : keys) {
    auto& peers = sockets[key];
    peers.resize(key.members.size());
    for (std::size_t i = 0; i < key.members.size(); ++i) {
      const int other = key.members[i];
      if (other < rank) ++expected;
      if (other <= rank) continue;
      if (addresses.count(other) == 0) {
        FT_ASSIGN(addresses[other], group.store()->Get("mesh " + std::to_string(other), over));
      }
      FT_ASSIGN(peers[i], ConnectToMesh(addresses[other]));
      const std::string hello = Framed(group.run_id()) +
                                Framed(BytesOfNumber(static_cast<std::uint64_t>(rank), 4)) +
                                Framed(key.Text("tcp"));
      if (!SendAll(peers[i], hello, kPatienceMs)) {
        return Fail(ErrorCode::kIo, key.Text("tcp") + ": rank " + std::to_string(other) +
                                        " does not take the connection of rank " +
                                        std::to_string(rank));
      }
    }
  }
  const auto deadline = Clock::now() + std::chrono::nanoseconds(context.timeout_ns);
  while (expected > 0) {
    if (over()) return tl::unexpected<Error>(context.control.AbortedError());
    if (Clock::now() > deadline) {
      return Fail(ErrorCode::kTimeout, "rank " + std::to_string(rank) + ": waited " +
                                           FormatSeconds(SecondsFromNs(context.timeout_ns)) +
                                           " for " + std::to_string(expected) +
                                           " connections of ranks below it");
    }
    Socket socket = AcceptWithin(listener, /*ms=*/50);
    std::string id, from, name;
    if (!socket.is_open() || !ReceiveText(socket, id, kMostBytes, kPatienceMs) ||
        id != group.run_id() || !ReceiveText(socket, from, kMostBytes, kPatienceMs) ||
        !ReceiveText(socket, name, kMostBytes, kPatienceMs)) {
      continue;  // somebody else's
    }
    const auto found = std::find_if(sockets.begin(), sockets.end(), [&](const auto& entry) {
      return entry.first.Text("tcp") == name;
    });
    const int other = static_cast<int>(NumberOfBytes(from));
    const int member = found == sockets.end() ? -1 : found->first.MemberOf(other);
    if (member < 0) {
      return Fail(ErrorCode::kIo, "rank " + std::to_string(other) + " opens " + name +
                                      ", which rank " + std::to_string(rank) + " has not");
    }
    found->second[static_cast<std::size_t>(member)] = std::move(socket);
    --expected;
  }
  return sockets;
}

WorldMaker SocketWorldMaker(const std::shared_ptr<ProcessGroup>& group) {
  return InGroup(
      group, [group](const WorldContext& context) { return SocketWorld::Make(context, *group); });
}

}  // namespace foretrain
