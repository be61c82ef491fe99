// Communication of one rank within one group on one queue, independent of the transport
// (runtime/inproc/, runtime/nccl/). The program decides what is sent when.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/device_api.h"
#include "base/result.h"
#include "sim/program/ir/op.h"
#include "traces/kinds.h"

namespace foretrain {

// Identifies the caller in error messages.
struct CallSite {
  int rank = 0;
  int step = 0;
  OpId op = kNoOp;
  std::string_view name;  // of the op in its block; outlives the run
};

// One call. `in` and `out` depend on the kind, see sim/program/ir/op.h:
//
//   all-reduce          in [elements], out [elements]; in == out or separate
//   reduce-scatter      in [elements], out [elements / n]; out separate, or this member's part of
//   in
//   all-gather          in [elements / n], out [elements]; in separate, or this member's part of
//   out
//   all-to-all          in [elements], out [elements], separate: part j of in goes to member j
//   unequal all-to-all  parts are contiguous; in and out separate
//   rotate              in [elements], out [elements], separate: in goes to the next member, out
//   comes
//                       from the previous one
//   send, receive       in [elements]; out [elements]
struct CommCall {
  OpKind kind = OpKind::kAllReduce;
  FtDtype dtype = FT_F32;
  std::int64_t elements = 0;  // of the whole tensor; for an unequal all-to-all, as if it were equal
  const void* in = nullptr;
  void* out = nullptr;
  // Unequal all-to-all: elements sent to and received from each member, in order; valid during the
  // call.
  const std::int64_t* in_parts = nullptr;
  const std::int64_t* out_parts = nullptr;
  bool accumulate = false;  // reduce-scatter, all-reduce: adds to out's old content
  bool maximum = false;     // all-reduce: elementwise maximum instead of the sum
  // On an asynchronous device, if not null: recorded on the queue after the wait for peers.
  FtEvent* started = nullptr;
  std::int64_t tag = 0;  // must agree; the op's id if members run the same instruction
  CallSite site;
};

// On the run's clock: this rank arrived, all peers had arrived, the call was done.
struct CommTimes {
  std::int64_t arrived_ns = 0;
  std::int64_t started_ns = 0;
  std::int64_t ended_ns = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  // Takes part in the group's next call. Returns when `out` is complete and `in` may be
  // overwritten. On an asynchronous device this holds for work given to `queue` from then on. Sums
  // are taken in member order in fp32: bit-identical on all members and in every run. One thread at
  // a time, which owns `queue`.
  //
  // Errors: kIo, members disagree on the call or it is malformed (names both sides); kTimeout, a
  // member did not arrive in time (named, with its last op); kAborted, the run was aborted; the
  // device's own.
  virtual Result<CommTimes> Call(const CommCall& call, FtQueue* queue) = 0;
};

// The communicators of one rank.
class CommunicatorSet {
 public:
  virtual ~CommunicatorSet() = default;

  // The communicator of `members` (ascending world ranks) for calls on `queue`. For kSend and kRecv
  // each end names its own queue. Called before the run by each member, with the same members.
  virtual Result<Communicator*> Open(const std::vector<int>& members, GroupKind group, Queue queue,
                                     OpKind kind) = 0;
};

}  // namespace foretrain
