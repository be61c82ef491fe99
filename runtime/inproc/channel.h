// One group's rendezvous on one queue: two slots, used in turn, hold a call of every member. Leaves
// out who talks to whom: runtime/inproc/inproc_world.h.
//
//   member 0 ──┐ arrive        every signature is checked by the last to come
//   member 1 ──┼──► slot #k ──► each member works on its own part ──► leave together
//   member 2 ──┘
//
// On a device that works later, members leave when all have given their part to the device: a stage
// that one passes it records an event behind, and its queue waits there for those of the others.
// Each only writes to its own memory, and what it reads of a member's on another device it reads
// behind an event of that device. Nothing on the device polls: a queue waits for what was
// given to the device before, so that queues which share the hardware are late at worst.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/communicator.h"
#include "runtime/device.h"
#include "runtime/flight.h"
#include "runtime/gate.h"

namespace foretrain {

class InprocChannel;

// At which channel each queue of each rank waits: what a time-out follows to the rank that holds
// all others up. One writer an entry, its queue's thread.
class WaitTable {
 public:
  explicit WaitTable(int ranks) : waits_(static_cast<std::size_t>(ranks)) {}
  void Set(int rank, Queue queue, const InprocChannel* channel) {
    waits_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(queue)].store(channel);
  }
  // The channels at which the rank waits.
  std::vector<const InprocChannel*> Of(int rank) const;

 private:
  std::vector<std::array<std::atomic<const InprocChannel*>, kQueueCount>> waits_;
};

// What all channels of a world share.
struct ChannelContext {
  const FtDeviceApi& api;
  RunClock& clock;
  RunControl& control;
  FlightRecorder& flight;
  std::int64_t timeout_ns = 0;
  std::function<std::string(int rank, OpId op)> op_text;
  WaitTable& waits;
  std::vector<int> devices;  // by rank
};

// Bytes of one element; 0 for a value outside the enum.
std::int64_t BytesOf(FtDtype dtype);

class InprocChannel {
 public:
  // `members`: ascending world ranks; for point-to-point calls {sender, receiver}.
  InprocChannel(const ChannelContext& context, std::vector<int> members);

  // Members that `rank`, which waits here, waits for.
  std::vector<int> MissingFor(int rank) const;

  // Call number `sequence` of `member`: one thread a member, in order from 0.
  Result<CommTimes> Call(int member, std::int64_t sequence, const CommCall& call, Queue at,
                         FtQueue* queue);

 private:
  // The stages of a call. Each member passes all of them, whether its kind needs them or not, so
  // that the counts of a slot stay in step.
  enum Stage : int { kArrive, kReduced, kLeave, kStages };

  struct alignas(64) Slot {
    std::vector<CommCall> calls;
    std::array<std::atomic<std::int64_t>, kStages> count{};  // passes in all, over all calls
    std::atomic<std::int64_t> checked{0};  // sequence + 1 of the call last checked
    std::int64_t started_ns = 0;           // written before `checked`
    std::optional<Error> verdict;          // likewise
    // By member, where the device works later: recorded behind each stage's own work. A member that
    // records for the call after the next knows that the others have given their waits for this
    // one.
    std::vector<std::array<DeviceEvent, kStages>> events;
  };

  std::int64_t Count() const { return static_cast<std::int64_t>(members_.size()); }
  std::int64_t Target(std::int64_t sequence) const { return Count() * (sequence / 2 + 1); }

  Result<void> Arrive(int member, std::int64_t sequence, Slot& slot, const CommCall& call);
  // Counts the member into a later stage and, if `wait`, waits for all others to reach it.
  Result<void> Pass(Slot& slot, Stage stage, int member, std::int64_t sequence, bool wait);
  Result<void> Move(int member, std::int64_t sequence, Slot& slot, FtQueue* queue);
  // The stage's own part is given to the queue; the queue waits for all others'.
  Result<void> Record(Slot& slot, Stage stage, int member, FtQueue* queue) const;
  Result<void> HoldUp(const Slot& slot, Stage stage, int member, FtQueue* queue) const;
  bool IsLater() const { return context_.api.asynchronous != 0; }

  std::optional<Error> Check(const Slot& slot, std::int64_t sequence) const;
  std::optional<Error> CheckParts(const Slot& slot, std::int64_t sequence) const;
  // Ranks other than `ranks` for which these wait, directly or through others, and which run an op
  // or wait for nobody: the cause of a time-out. It may be the caller itself, on another queue.
  std::vector<int> CausesOf(std::vector<int> ranks) const;
  Error Expired(Stage stage, int member, std::int64_t sequence, const CommCall& call) const;
  std::string CallText(const CommCall& call, std::int64_t sequence) const;
  std::string LastText(int rank) const;

  Result<void> Reduce(const Slot& slot, int member, FtQueue* queue);
  Result<void> Gather(const Slot& slot, int member, FtQueue* queue) const;
  // Copies what other members' `in` holds for this one: all-to-all and rotate.
  Result<void> Exchange(const Slot& slot, int member, FtQueue* queue) const;
  Result<void> ExchangeParts(const Slot& slot, int member, FtQueue* queue) const;
  Result<void> Copy(FtQueue* queue, void* to, const void* from, std::int64_t bytes) const;

  const ChannelContext& context_;
  const std::vector<int> members_;
  std::array<Slot, 2> slots_;
  std::vector<std::vector<const void*>> sources_;  // of each member's sums: room, made once
  std::vector<std::atomic<std::int64_t>> begun_;   // calls each member has begun
  std::vector<std::atomic<std::int64_t>> left_;    // calls each member has finished its part of
  Gate gate_;
};

}  // namespace foretrain
