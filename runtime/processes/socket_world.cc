#include "runtime/processes/socket_world.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/units.h"
#include "runtime/processes/wire/packing.h"

namespace foretrain {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLookMs = 50;

}  // namespace

class SocketWorld::Set : public CommunicatorSet {
 public:
  Set(const WorldContext& context, int rank, PeersOf all, TransferCheck check) : rank_(rank) {
    for (auto& [key, peers] : all) {
      endpoints_[key] =
          std::make_unique<SocketEndpoint>(context, key, rank, std::move(peers), check);
    }
  }
  int rank() const { return rank_; }

  // All peers were connected in Make; this only finds the endpoint.
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
                                                     ProcessGroup& group, TransferCheck check) {
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
  FT_ASSIGN(PeersOf peers, ConnectAll(context, group, keys));
  std::unique_ptr<SocketWorld> world(new SocketWorld);
  world->set_ = std::make_unique<Set>(context, rank, std::move(peers), check);
  return std::unique_ptr<RankWorld>(std::move(world));
}

// Dials the ranks above this one, once for each key, and names the key to each. Their addresses
// come from rank 0 and are checked, since ranks are other processes.
Result<void> SocketWorld::DialLater(const WorldContext& context, ProcessGroup& group,
                                    PeersOf& peers) {
  const int rank = group.rank();
  const Deadline by = DeadlineIn(context.timeout_ns);
  std::map<int, std::pair<std::string, std::int32_t>> places;  // address and port, by rank
  for (auto& [key, of_key] : peers) {
    for (std::size_t i = 0; i < key.members.size(); ++i) {
      const int other = key.members[i];
      if (other <= rank) continue;
      if (places.count(other) == 0) {
        FT_ASSIGN(const std::string text,
                  group.Get(other, "mesh", [&] { return context.control.Aborted(); }));
        auto& [address, port] = places[other];
        if (!Unpack(text, address, port) || port < 1 || port > 65535) {
          return Fail(ErrorCode::kIo, "rank " + std::to_string(other) +
                                          " listens nowhere; run one build on all machines");
        }
      }
      const auto& [address, port] = places.at(other);
      const std::string hello = Pack(std::int32_t{rank}, key.Text("tcp"));
      auto dialed = Dial(address, port, group.run_key(), hello, context.timeout_ns, by);
      // Strangers may crowd the other's listener for a while.
      while (!dialed.has_value() && dialed.error().code != ErrorCode::kInvalidArgument &&
             !context.control.Aborted() && Clock::now() < by) {
        std::this_thread::sleep_for(std::chrono::milliseconds(kLookMs));
        dialed = Dial(address, port, group.run_key(), hello, context.timeout_ns, by);
      }
      if (!dialed.has_value()) {
        return Fail(dialed.error().code, "rank " + std::to_string(rank) + " connects to rank " +
                                             std::to_string(other) + " at " + address + ":" +
                                             std::to_string(port) + ": " + dialed.error().message);
      }
      of_key[i] = std::move(dialed->connection);
    }
  }
  return {};
}

// Files a connection under the key and rank that it names.
Result<void> SocketWorld::Admit(Joined joined, int rank, PeersOf& peers) {
  std::int32_t other = -1;
  std::string name;
  if (!Unpack(joined.text, other, name)) {
    return Fail(ErrorCode::kIo, "a process of another build connects");
  }
  const auto found = std::find_if(peers.begin(), peers.end(), [&](const auto& entry) {
    return entry.first.Text("tcp") == name;
  });
  const int member = found == peers.end() ? -1 : found->first.MemberOf(other);
  if (member < 0 || other >= rank || found->second[static_cast<std::size_t>(member)]) {
    return Fail(ErrorCode::kIo, "rank " + std::to_string(other) + " opens " + name +
                                    ", which rank " + std::to_string(rank) +
                                    " has not or has already");
  }
  // If it does not take the welcome, the first call finds that it has gone.
  static_cast<void>(Welcome(joined.connection, ""));
  found->second[static_cast<std::size_t>(member)] = std::move(joined.connection);
  return {};
}

Result<void> SocketWorld::AcceptEarlier(const WorldContext& context, const ProcessGroup& group,
                                        const Socket& listener, PeersOf& peers) {
  const int rank = group.rank();
  Reception reception(listener, group.run_key(), context.timeout_ns);
  std::int64_t expected = 0;
  for (const auto& [key, of_key] : peers) {
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
                                           " connections of ranks below it" +
                                           reception.RefusedText());
    }
    auto joined = reception.Next(kLookMs);
    if (!joined) continue;
    FT_TRY(Admit(*std::move(joined), rank, peers));
    --expected;
  }
  return {};
}

// A thread accepts the ranks below this one while this one dials those above it: each dial waits
// for an answer, which no order of the ranks may delay. The listener closes with this function.
Result<SocketWorld::PeersOf> SocketWorld::ConnectAll(const WorldContext& context,
                                                     ProcessGroup& group,
                                                     const std::vector<ChannelKey>& keys) {
  PeersOf peers;
  for (const ChannelKey& key : keys) peers[key].resize(key.members.size());
  const auto listener = ListenAt(group.address(), 0);
  if (!listener.has_value()) {
    return Fail(ErrorCode::kIo, "rank " + std::to_string(group.rank()) + " listens at " +
                                    group.address() + ": " + listener.error().message);
  }
  FT_TRY(group.Put(group.rank(), "mesh", Pack(group.address(), std::int32_t{PortOf(*listener)})));
  Result<void> accepted;
  std::thread accepts([&] {
    accepted = AcceptEarlier(context, group, *listener, peers);
    if (!accepted.has_value()) context.control.Fail(group.rank(), accepted.error());
  });
  const auto dialed = DialLater(context, group, peers);
  if (!dialed.has_value()) context.control.Fail(group.rank(), dialed.error());
  accepts.join();
  // The error that came first is the cause of the other.
  if (auto error = context.control.FirstError()) return tl::unexpected<Error>(*std::move(error));
  return peers;
}

WorldMaker SocketWorldMaker(const std::shared_ptr<ProcessGroup>& group, TransferCheck check) {
  return InGroup(group, [group, check](const WorldContext& context) {
    return SocketWorld::Make(context, *group, check);
  });
}

}  // namespace foretrain
