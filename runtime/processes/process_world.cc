#include "runtime/processes/process_world.h"

#include <arpa/inet.h>
#include <ifaddrs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "base/units.h"
#include "runtime/processes/peer_endpoint.h"
#include "runtime/processes/wire/socket.h"

namespace foretrain {
namespace {

std::string NameOf(const ChannelKey& key) { return key.Text("ucx"); }

// Name of this machine's network device that has the address, "eth0". A second address of a device
// has a name as "eth0:1", which is no device.
Result<std::string> NetworkDeviceOf(const std::string& address) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return Fail(ErrorCode::kIo, std::strerror(errno));
  std::string name;
  for (const ifaddrs* one = all; one != nullptr && name.empty(); one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    const auto& at = reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr;
    if (inet_ntop(AF_INET, &at, text.data(), text.size()) == nullptr) continue;
    if (text.data() == address) name = one->ifa_name;
  }
  freeifaddrs(all);
  if (name.empty()) return Fail(ErrorCode::kIo, "no network device has the address " + address);
  return name.substr(0, name.find(':'));
}

}  // namespace

class ProcessWorld::Set : public CommunicatorSet {
 public:
  Set(const WorldContext& context, int rank, Workers workers, const std::string& run_key,
      TransferCheck check)
      : rank_(rank) {
    for (auto& [key, worker] : workers) {
      endpoints_[key] =
          std::make_unique<PeerEndpoint>(context, key, rank, std::move(worker),
                                         TransferCodes(check, run_key, key, key.MemberOf(rank)));
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
  std::map<ChannelKey, std::unique_ptr<PeerEndpoint>> endpoints_;
};

ProcessWorld::ProcessWorld(std::unique_ptr<UcxContext> ucx) : ucx_(std::move(ucx)) {}
ProcessWorld::~ProcessWorld() = default;

CommunicatorSet& ProcessWorld::Rank(int rank) {
  FT_CHECK(rank == set_->rank());
  return *set_;
}

// A device with its own memory is refused: UCX reads and writes host memory here. If the ranks meet
// at the loopback address, all are on this machine.
Result<std::unique_ptr<RankWorld>> ProcessWorld::Make(const WorldContext& context,
                                                      const UcxApi& ucx, ProcessGroup& group,
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
  FT_TRY(group.Agree("version of UCX", UcxVersionText(ucx)));
  std::string transports = "posix", device;
  if (!IsLoopback(group.address())) {
    transports += ",tcp";
    FT_ASSIGN(device, NetworkDeviceOf(group.address()));
  }
  FT_ASSIGN(std::unique_ptr<UcxContext> made, UcxContext::Make(ucx, transports, device));
  FT_ASSIGN(Workers workers, ConnectAll(context, *made, group, keys));
  std::unique_ptr<ProcessWorld> world(new ProcessWorld(std::move(made)));
  world->set_ = std::make_unique<Set>(context, rank, std::move(workers), group.run_key(), check);
  return std::unique_ptr<RankWorld>(std::move(world));
}

// Addresses of workers travel through rank 0, over the group's authenticated connections.
Result<ProcessWorld::Workers> ProcessWorld::ConnectAll(const WorldContext& context,
                                                       const UcxContext& ucx, ProcessGroup& group,
                                                       const std::vector<ChannelKey>& keys) {
  const int rank = group.rank();
  Workers workers;
  for (const ChannelKey& key : keys) {
    FT_ASSIGN(workers[key],
              UcxWorker::Make(ucx, key.MemberOf(rank), static_cast<int>(key.members.size())));
    FT_TRY(group.Put(rank, NameOf(key), workers[key]->address()));
  }
  for (const ChannelKey& key : keys) {
    for (const int other : key.members) {
      if (other == rank) continue;
      FT_ASSIGN(const std::string address,
                group.Get(other, NameOf(key), [&] { return context.control.Aborted(); }));
      const auto connected = workers[key]->Connect(key.MemberOf(other), address);
      if (connected.has_value()) continue;
      return Fail(connected.error().code, "rank " + std::to_string(rank) + " connects to rank " +
                                              std::to_string(other) + ": " +
                                              connected.error().message);
    }
  }
  FT_TRY(Greet(context, rank, workers));
  return workers;
}

// UCX connects with the first bytes that move: all members of all communicators exchange one, so
// that no step waits for it, and a rank that cannot be reached is found before the run.
Result<void> ProcessWorld::Greet(const WorldContext& context, int rank, const Workers& workers) {
  std::map<ChannelKey, std::vector<char>> greetings;
  std::vector<std::pair<const ChannelKey*, UcxWorker*>> greeting;
  for (const auto& [key, worker] : workers) {
    std::vector<char>& bytes = greetings[key];
    bytes.resize(key.members.size());
    std::vector<Piece> pieces;
    for (int other = 0; other < static_cast<int>(key.members.size()); ++other) {
      const int member = key.MemberOf(rank);
      if (other == member) continue;
      pieces.push_back({other, true, &bytes[static_cast<std::size_t>(member)], 1});
      pieces.push_back({other, false, &bytes[static_cast<std::size_t>(other)], 1});
    }
    worker->Start(pieces);
    greeting.emplace_back(&key, worker.get());
  }
  const Deadline by = DeadlineIn(context.timeout_ns);
  while (!greeting.empty()) {
    const auto [key, worker] = greeting.front();
    const TransportState state = worker->Advance(/*ms=*/1);
    for (std::size_t i = 1; i < greeting.size(); ++i) {
      static_cast<void>(greeting[i].second->Advance(/*ms=*/0));
    }
    const std::string other =
        "rank " + std::to_string(key->members[static_cast<std::size_t>(state.member)]);
    if (!state.trouble.empty()) {
      return Fail(ErrorCode::kIo,
                  "rank " + std::to_string(rank) + " connects to " + other + ": " + state.trouble);
    }
    if (state.finished) greeting.erase(greeting.begin());
    if (context.control.Aborted()) return tl::unexpected<Error>(context.control.AbortedError());
    if (std::chrono::steady_clock::now() > by) {
      return Fail(ErrorCode::kTimeout, "rank " + std::to_string(rank) + ": waited " +
                                           FormatSeconds(SecondsFromNs(context.timeout_ns)) +
                                           " for " + other + " to connect");
    }
  }
  return {};
}

WorldMaker ProcessWorldMaker(const UcxApi& ucx, const std::shared_ptr<ProcessGroup>& group,
                             TransferCheck check) {
  return InGroup(group, [ucx, group, check](const WorldContext& context) {
    return ProcessWorld::Make(context, ucx, *group, check);
  });
}

}  // namespace foretrain
