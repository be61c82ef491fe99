// Creates the communicators of a process's ranks, and defines their keys. Transports:
// runtime/inproc/, runtime/nccl/, runtime/processes/.
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
#include "runtime/run/flight.h"
#include "runtime/run/local_rank.h"
#include "runtime/run/run_clock.h"
#include "runtime/run/run_control.h"
#include "sim/program/ir/program.h"

namespace foretrain {

// Identifies a communicator on all its members. Point-to-point: {sender, receiver}, and the queue
// that gives the direction around the ring.
struct ChannelKey {
  std::vector<int> members;
  Queue queue = Queue::kHost;
  auto operator<=>(const ChannelKey&) const = default;

  // "nccl reduce of ranks 0 1 2", with `carrier` "nccl".
  std::string Text(const std::string& carrier) const;
  // Index of the rank among the members; -1 if it is none.
  int MemberOf(int rank) const;
};

// The key for the arguments of CommunicatorSet::Open. Errors: kInvalidArgument, `rank` is no
// member, or a transfer does not join exactly two.
Result<ChannelKey> KeyOf(int rank, std::vector<int> members, GroupKind group, Queue queue,
                         OpKind kind);

// The communicators used by a rank's step, each once, ascending. Ranks that create theirs one by
// one in this order never wait for each other in a cycle. O(ops log ops).
std::vector<ChannelKey> KeysOf(const Program& program, const RankProgram& rank);

// Context for creating a world; all but `program` and `local` outlive it.
struct WorldContext {
  const Program& program;
  const std::vector<LocalRank>& local;  // ranks of this process
  const FtDeviceApi& api;
  RunClock& clock;
  RunControl& control;
  FlightRecorder& flight;
  std::int64_t timeout_ns = 0;                            // wait of a rank for its peers
  std::function<std::string(int rank, OpId op)> op_text;  // for messages
};

// The communicators of a run's ranks in this process.
class RankWorld {
 public:
  virtual ~RankWorld() = default;
  // The communicators of a rank of this process; valid as long as the world.
  virtual CommunicatorSet& Rank(int rank) = 0;
};

using WorldMaker = std::function<Result<std::unique_ptr<RankWorld>>(const WorldContext&)>;

}  // namespace foretrain
