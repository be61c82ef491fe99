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
// A text of a greeting is at most this long; a key names all its ranks.
constexpr std::uint32_t kMaxBytes = 1 << 20;

// Connects to an address and port such as "10.0.0.1 1234".
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

  // All sockets were connected in Make; this only finds the endpoint.
  Result<Communicator*> Open(const std::vector<int>& members, GroupKind group, Queue queue,
                             OpKind kind) override {
    FT_ASSIGN(const ChannelKey key, KeyOf(rank_, members, group, queue, kind));
    const auto found = endpoints_.find(key);
    FT_CHECK(found != endpoints_.end());  // KeysOf lists all of the program's
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

// A device with its own memory is refused: sockets read and write host memory.
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

// Opens the sockets of every key to the ranks above this one and names the key to each.
Result<void> SocketWorld::ConnectToLater(const WorldContext& context, ProcessGroup& group,
                                         const std::vector<ChannelKey>& keys, Sockets& sockets) {
  const int rank = group.rank();
  const auto over = [&] { return context.control.Aborted(); };
  std::map<int, std::string> addresses;
  for (const ChannelKey& key : keys) {
    auto& peers = sockets[key];
    peers.resize(key.members.size());
    for (std::size_t i = 0; i < key.members.size(); ++i) {
      const int other = key.members[i];
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
  return {};
}

// Accepts one connection and files it under the key and rank that it names. False if none came or
// if it belongs to another run. Texts are bounded by kMaxBytes and kPatienceMs, since any program
// may connect.
Result<bool> SocketWorld::AcceptOne(const Socket& listener, const ProcessGroup& group,
                                    Sockets& sockets) {
  Socket socket = AcceptWithin(listener, /*ms=*/50);
  std::string id, from, name;
  if (!socket.is_open() || !ReceiveText(socket, id, kMaxBytes, kPatienceMs) ||
      id != group.run_id() || !ReceiveText(socket, from, kMaxBytes, kPatienceMs) ||
      !ReceiveText(socket, name, kMaxBytes, kPatienceMs)) {
    return false;
  }
  const auto found = std::find_if(sockets.begin(), sockets.end(), [&](const auto& entry) {
    return entry.first.Text("tcp") == name;
  });
  const int other = static_cast<int>(NumberOfBytes(from));
  const int member = found == sockets.end() ? -1 : found->first.MemberOf(other);
  if (member < 0) {
    return Fail(ErrorCode::kIo, "rank " + std::to_string(other) + " opens " + name +
                                    ", which rank " + std::to_string(group.rank()) + " has not");
  }
  found->second[static_cast<std::size_t>(member)] = std::move(socket);
  return true;
}

// Each rank connects to the ranks above it, then accepts those below it. A listening socket queues
// connections before they are accepted, so no order of the ranks can deadlock.
Result<SocketWorld::Sockets> SocketWorld::ConnectAll(const WorldContext& context,
                                                     ProcessGroup& group,
                                                     const std::vector<ChannelKey>& keys) {
  const int rank = group.rank();
  FT_ASSIGN(const Socket listener, ListenAt(0));
  FT_TRY(group.store()->Put("mesh " + std::to_string(rank),
                            group.address() + " " + std::to_string(PortOf(listener))));
  Sockets sockets;
  FT_TRY(ConnectToLater(context, group, keys, sockets));
  std::int64_t expected = 0;
  for (const ChannelKey& key : keys) {
    expected += std::count_if(key.members.begin(), key.members.end(),
                              [&](int member) { return member < rank; });
  }
  const auto deadline = Clock::now() + std::chrono::nanoseconds(context.timeout_ns);
  while (expected > 0) {
    if (context.control.Aborted()) return tl::unexpected<Error>(context.control.AbortedError());
    if (Clock::now() > deadline) {
      return Fail(ErrorCode::kTimeout, "rank " + std::to_string(rank) + ": waited " +
                                           FormatSeconds(SecondsFromNs(context.timeout_ns)) +
                                           " for " + std::to_string(expected) +
                                           " connections of ranks below it");
    }
    FT_ASSIGN(const bool accepted, AcceptOne(listener, group, sockets));
    if (accepted) --expected;
  }
  return sockets;
}

WorldMaker SocketWorldMaker(const std::shared_ptr<ProcessGroup>& group) {
  return InGroup(
      group, [group](const WorldContext& context) { return SocketWorld::Make(context, *group); });
}

}  // namespace foretrain
