// Communication of one rank within one group on one queue, whatever carries the bytes. Leaves out
// the carriers (runtime/inproc/) and what is sent when (the program).
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/device_api.h"
#include "base/result.h"
#include "sim/program/op.h"
#include "traces/kinds.h"

namespace foretrain {

// Who calls: what a message about the call says.
struct CallSite {
  int rank = 0;
  int step = 0;
  OpId op = kNoOp;
  std::string_view name;  // of the op in its block; outlives the run
};

// One call. `in` and `out` by kind, as sim/program/op.h says:
//   all-reduce      in [elements], out [elements]; in == out, or apart
//   reduce-scatter  in [elements], out [elements / n]; out apart from in, or this member's part
//   of it all-gather      in [elements / n], out [elements]; in apart from out, or this member's
//   part all-to-all      in [elements], out [elements] apart: part j of in goes to member j
//   unequal all-to-all  parts one behind the other, in and out apart
//   rotate          in [elements], out [elements] apart: in goes to the next member, out is the one
//   before's; send            in [elements];  receive: out [elements]
struct CommCall {
  OpKind kind = OpKind::kAllReduce;
  FtDtype dtype = FT_F32;
  std::int64_t elements = 0;  // of the whole tensor; of an unequal all-to-all, if it were equal
  const void* in = nullptr;
  void* out = nullptr;
  // Unequal all-to-all: elements that go to and come from each member, in order, for the call's
  // time.
  const std::int64_t* in_parts = nullptr;
  const std::int64_t* out_parts = nullptr;
  bool accumulate = false;  // reduce-scatter, all-reduce: out's old content is the first summand
  bool maximum = false;     // all-reduce: the largest of each element, not the sum
  // On an asynchronous device, where not null: recorded on the queue behind what waits for peers.
  FtEvent* started = nullptr;
  std::int64_t tag = 0;     // must agree; the op's id where members run the same instruction
  CallSite site;
};

// When this rank came, when its peers had come too, and when the call was done: the run's clock.
struct CommTimes {
  std::int64_t arrived_ns = 0;
  std::int64_t started_ns = 0;
  std::int64_t ended_ns = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  // Takes part in the group's next call; returns when this rank's `out` is whole and its `in` may
  // be written again or, on an asynchronous device, when it holds so for all that `queue` is given
  // from then on. Sums are taken in member order in fp32: equal to the bit on all members and
  // in every run. One thread at a time; `queue` is that thread's.
  //
  // Errors: kIo, members disagree on the call, or it is malformed (both sides named);
  // kTimeout, a member did not come in time (named, with what it did last); kAborted, the run was
  // ended meanwhile; the device's own.
  virtual Result<CommTimes> Call(const CommCall& call, FtQueue* queue) = 0;
};

// The communicators of one rank.
class CommunicatorSet {
 public:
  virtual ~CommunicatorSet() = default;

  // The one of `members` (ascending world ranks) for calls on `queue`. For kSend and kRecv the two
  // ends name their own queues. Called before the run by each member with the same members.
  virtual Result<Communicator*> Open(const std::vector<int>& members, GroupKind group, Queue queue,
                                     OpKind kind) = 0;
};

}  // namespace foretrain
