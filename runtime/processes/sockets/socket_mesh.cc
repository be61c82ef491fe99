#include "runtime/processes/sockets/socket_mesh.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "base/units.h"
#include "runtime/processes/reception.h"
#include "runtime/processes/sockets/socket_transport.h"
#include "runtime/processes/wire/packing.h"

namespace foretrain {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLookMs = 50;

// By member; none to itself. An element is filled by one thread alone.
using Peers = std::vector<std::optional<Connection>>;
using PeersOf = std::map<ChannelKey, Peers>;

// Dials the ranks above this one, once for each key, and names the key to each. Their addresses
// come from rank 0 and are checked, since ranks are other processes.
Result<void> DialLater(const WorldContext& context, ProcessGroup& group, PeersOf& peers) {
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
Result<void> Admit(Joined joined, int rank, PeersOf& peers) {
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

Result<void> AcceptEarlier(const WorldContext& context, const ProcessGroup& group,
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

}  // namespace

// A thread accepts the ranks below this one while this one dials those above it: each dial waits
// for an answer, which no order of the ranks may delay.
Result<Transports> ConnectBySockets(const WorldContext& context, ProcessGroup& group,
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
  Transports transports;
  for (auto& [key, of_key] : peers) {
    transports[key] = std::make_unique<SocketTransport>(std::move(of_key));
  }
  return transports;
}

}  // namespace foretrain
