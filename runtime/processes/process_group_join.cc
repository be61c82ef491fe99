// How the processes of a run find each other: rank 0 listens, the others dial it, and no one can
// join afterwards.
#include <chrono>
#include <thread>
#include <utility>

#include "base/io/sha256.h"
#include "base/units.h"
#include "runtime/processes/group_messages.h"
#include "runtime/processes/process_group.h"
#include "runtime/processes/reception.h"
#include "runtime/processes/wire/job_key.h"
#include "runtime/processes/wire/packing.h"

namespace foretrain {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLookMs = 20;
constexpr auto kRetry = std::chrono::milliseconds(20);

std::string Place(const std::string& address, int port) {
  return address + ":" + std::to_string(port);
}

}  // namespace

// The listening thread starts last: from then on only it receives, and peers_ does not change any
// more.
Result<std::unique_ptr<ProcessGroup>> ProcessGroup::Join(const LaunchedRank& at,
                                                         std::int64_t timeout_ns) {
  auto address = AddressOf(at.address);
  if (!address.has_value()) {
    return Fail(ErrorCode::kIo, "MASTER_ADDR " + at.address + ": " + address.error().message);
  }
  std::string key;
  if (!at.token.empty()) {
    FT_ASSIGN(key, KeyOfToken(at.token));
  } else if (!IsLoopback(*address)) {
    return Fail(ErrorCode::kInvalidArgument,
                "ranks meet at " + *address +
                    ", which other machines reach, and the job has no token; set "
                    "FORETRAIN_JOB_TOKEN in every process to the same output of `openssl rand -hex "
                    "32`, or give --job-token FILE");
  }
  std::unique_ptr<ProcessGroup> group(new ProcessGroup(at, timeout_ns));
  const auto met = at.rank == 0 ? group->AcceptAll(*address, key) : group->JoinFirst(*address, key);
  if (!met.has_value()) {
    group->TellFailure(met.error());  // to those that have joined
    return tl::unexpected<Error>(met.error());
  }
  group->thread_ = std::thread([at_group = group.get()] { at_group->Listen(); });
  return group;
}

// The id is new in each run: connections of an earlier run with the same token fail.
void ProcessGroup::Begin(const std::string& key, const std::string& run_id) {
  run_key_ = HmacSha256(key).Add("run ").Add(run_id).Finish();
}

Result<void> ProcessGroup::AcceptAll(const std::string& address, const std::string& key) {
  address_ = address;
  auto listener = ListenAt(address, at_.port);
  if (!listener.has_value()) {
    return Fail(ErrorCode::kIo, "rank 0 listens at " + Place(address, at_.port) + ": " +
                                    listener.error().message +
                                    "; MASTER_ADDR must be an address of rank 0's machine, and "
                                    "MASTER_PORT a free port");
  }
  if (!key.empty()) return AcceptAt(*listener, address, key);
  // Made once the port is this process's, and removed before it is free again.
  FT_ASSIGN(const KeyFile file, KeyFile::Make(at_.port));
  return AcceptAt(*listener, address, file.key());
}

// Whoever lacks the key is dropped. A process that has it and contradicts the launch ends the
// meeting. The listener closes with this function.
Result<void> ProcessGroup::AcceptAt(const Socket& listener, const std::string& address,
                                    const std::string& key) {
  Reception reception(listener, key, timeout_ns_);
  const std::string run_id = RandomBytes(Sha256::kBytes);
  Begin(key, run_id);
  const Deadline by = DeadlineIn(timeout_ns_);
  while (static_cast<int>(peers_.size()) < at_.world - 1) {
    if (Clock::now() > by) {
      return Fail(ErrorCode::kTimeout, "rank 0 waited " +
                                           FormatSeconds(SecondsFromNs(timeout_ns_)) + " at " +
                                           Place(address, at_.port) + " for the processes of " +
                                           MissingText() + reception.RefusedText());
    }
    auto joined = reception.Next(kLookMs);
    if (!joined) continue;
    const auto admitted = Admit(*joined, run_id);
    if (admitted.has_value()) continue;
    TurnAway(joined->connection, admitted.error().message);
    return admitted;
  }
  return {};
}

Result<void> ProcessGroup::Admit(Joined& joined, const std::string& run_id) {
  std::int32_t rank = 0, world = 0;
  if (!Unpack(joined.text, rank, world)) {
    return Fail(ErrorCode::kInvalidArgument, "a process of another build wants to join");
  }
  if (world != at_.world) {
    return Fail(ErrorCode::kInvalidArgument,
                "rank " + std::to_string(rank) + " was launched as one of " +
                    std::to_string(world) + " processes, rank 0 as one of " +
                    std::to_string(at_.world) + "; start all with one WORLD_SIZE");
  }
  if (rank < 1 || rank >= at_.world || peers_.count(rank) != 0) {
    return Fail(ErrorCode::kInvalidArgument, "two processes say that they are rank " +
                                                 std::to_string(rank) +
                                                 "; each needs a RANK of its own");
  }
  // If it does not take the welcome, the listening thread reports that it has gone.
  static_cast<void>(Welcome(joined.connection, run_id));
  peers_[rank] = std::make_unique<Peer>(std::move(joined.connection));
  return {};
}

// Tries until the time is over, because rank 0 may not listen yet, and a key file may be left from
// a run that was killed. The own end of the connection gives this process's address as other
// machines reach it.
Result<void> ProcessGroup::JoinFirst(const std::string& address, const std::string& key) {
  const Deadline by = DeadlineIn(timeout_ns_);
  const std::string hello = Pack(std::int32_t{at_.rank}, std::int32_t{at_.world});
  const auto dial = [&](std::string job_key) -> Result<Joined> {
    if (job_key.empty()) {
      FT_ASSIGN(job_key, ReadKeyFile(at_.port));
    }
    FT_ASSIGN(Joined joined, Dial(address, at_.port, job_key, hello, timeout_ns_, by));
    Begin(job_key, joined.text);
    return joined;
  };
  for (;;) {
    auto joined = dial(key);
    if (joined.has_value()) {
      address_ = OwnAddress(joined->connection.socket());
      peers_[0] = std::make_unique<Peer>(std::move(joined->connection));
      return {};
    }
    if (joined.error().code == ErrorCode::kInvalidArgument) {
      return tl::unexpected<Error>(joined.error());
    }
    if (Clock::now() > by) {
      return Fail(ErrorCode::kTimeout, "rank " + std::to_string(at_.rank) + " waited " +
                                           FormatSeconds(SecondsFromNs(timeout_ns_)) +
                                           " for rank 0 at " + Place(address, at_.port) + ": " +
                                           joined.error().message);
    }
    std::this_thread::sleep_for(kRetry);
  }
}

}  // namespace foretrain
