// What makes the communicators of a run's ranks in a process, and what a communicator is known by.
// Leaves out what they carry bytes with: runtime/inproc/, runtime/nccl/, runtime/processes/.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/device_api.h"
#include "base/result.h"
#include "runtime/communicator.h"
#include "runtime/flight.h"
#include "runtime/local_rank.h"
#include "runtime/run_clock.h"
#include "runtime/run_control.h"
#include "sim/program/program.h"

namespace foretrain {

// What all members of a communicator know it by. Point-to-point: {sender, receiver}, and the queue
// that says which way round the ring the transfer goes.
struct ChannelKey {
  std::vector<int> members;
  Queue queue = Queue::kHost;
  auto operator<=>(const ChannelKey&) const = default;

  // "nccl reduce of ranks 0 1 2", with `carrier` "nccl".
  std::string Text(const std::string& carrier) const;
  // Place of the rank among the members; -1: it is none.
  int MemberOf(int rank) const;
};

// The key of CommunicatorSet::Open's arguments. Errors: kInvalidArgument, `rank` is no member, or a
// transfer joins other than two.
Result<ChannelKey> KeyOf(int rank, std::vector<int> members, GroupKind group, Queue queue,
                         OpKind kind);

// The communicators that a rank's step calls, each once, ascending: ranks that make theirs in this
// order, one after the other, never wait for each other in a ring. O(ops log ops).
std::vector<ChannelKey> KeysOf(const Program& program, const RankProgram& rank);

// What a world is made for; all but `program` and `local` outlive it.
struct WorldContext {
  const Program& program;
  const std::vector<LocalRank>& local;  // ranks of this process
  const FtDeviceApi& api;
  RunClock& clock;
  RunControl& control;
  FlightRecorder& flight;
  std::int64_t timeout_ns = 0;                            // of a rank that waits for its peers
  std::function<std::string(int rank, OpId op)> op_text;  // for messages
};

// The communicators of a run's ranks in this process.
class RankWorld {
 public:
  virtual ~RankWorld() = default;
  // Of a rank of this process; lives as long as the world.
  virtual CommunicatorSet& Rank(int rank) = 0;
};

using WorldMaker = std::function<Result<std::unique_ptr<RankWorld>>(const WorldContext&)>;

}  // namespace foretrain
