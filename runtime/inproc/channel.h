// Rendezvous of one group on one queue: two slots, used alternately, hold one call of every member.
// runtime/inproc/inproc_world.h creates the channels.
//
//   member 0 ──┐ arrive        every signature is checked by the last to come
//   member 1 ──┼──► slot #k ──► each member works on its own part ──► leave together
//   member 2 ──┘
//
// On an asynchronous device, members leave once all have given their part to the device. At each
// stage a member records an event, and its queue waits for the events of the others. A member
// writes only its own memory, and reads another device's memory only after an event of that device.
// Nothing polls on the device: a queue waits only for work given earlier, so queues that share
// hardware can be late but not deadlock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/communicator.h"
#include "runtime/device/device.h"
#include "runtime/run/flight.h"
#include "runtime/run/gate.h"

namespace foretrain {

class InprocChannel;

// The channel at which each queue of each rank waits. A timeout follows it to the rank that holds
// up all others. Each entry is written only by its queue's thread.
class WaitTable {
 public:
  explicit WaitTable(int ranks) : waits_(static_cast<std::size_t>(ranks)) {}
  void Set(int rank, Queue queue, const InprocChannel* channel) {
    waits_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(queue)].store(channel);
  }
  // The channels at which the rank waits now.
  std::vector<const InprocChannel*> Of(int rank) const;

 private:
  std::vector<std::array<std::atomic<const InprocChannel*>, kQueueCount>> waits_;
};

// Context shared by all channels of a world.
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

// Bytes of an element; 0 for a value outside the enum.
std::int64_t BytesOf(FtDtype dtype);

class InprocChannel {
 public:
  // `members`: ascending world ranks; for point-to-point calls {sender, receiver}.
  InprocChannel(const ChannelContext& context, std::vector<int> members);

  // The members that `rank`, which waits here, waits for.
  std::vector<int> MissingFor(int rank) const;

  // Call number `sequence` of `member`: one thread for each member, in order from 0.
  Result<CommTimes> Call(int member, std::int64_t sequence, const CommCall& call, Queue at,
                         FtQueue* queue);

 private:
  // Stages of a call. Each member passes all of them, even if its kind does not need one, so that
  // the counts of a slot stay equal.
  enum Stage : int { kArrive, kReduced, kLeave, kStages };

  struct alignas(64) Slot {
    std::vector<CommCall> calls;
    std::array<std::atomic<std::int64_t>, kStages> count{};  // passes over all calls
    std::atomic<std::int64_t> checked{0};  // sequence + 1 of the call last checked
    std::int64_t started_ns = 0;           // written before `checked`
    std::optional<Error> verdict;          // written before `checked`
    // By member, on an asynchronous device: recorded after each stage's own work. A member that
    // records for the call after the next knows that the others have queued their waits for this
    // one.
    std::vector<std::array<DeviceEvent, kStages>> events;
  };

  std::int64_t Count() const { return static_cast<std::int64_t>(members_.size()); }
  std::int64_t Target(std::int64_t sequence) const { return Count() * (sequence / 2 + 1); }

  Result<void> Arrive(int member, std::int64_t sequence, Slot& slot, const CommCall& call);
  // Counts the member into a later stage. If `wait`, waits until all others have reached it.
  Result<void> Pass(Slot& slot, Stage stage, int member, std::int64_t sequence, bool wait);
  Result<void> Move(int member, std::int64_t sequence, Slot& slot, FtQueue* queue);
  // Record: the stage's own work was given to the queue. HoldUp: the queue waits for all others'.
  Result<void> Record(Slot& slot, Stage stage, int member, FtQueue* queue) const;
  Result<void> HoldUp(const Slot& slot, Stage stage, int member, FtQueue* queue) const;
  bool IsLater() const { return context_.api.asynchronous != 0; }

  std::optional<Error> Check(const Slot& slot, std::int64_t sequence) const;
  std::optional<Error> CheckParts(const Slot& slot, std::int64_t sequence) const;
  // The cause of a timeout: ranks other than `ranks` for which these wait, directly or through
  // others, and which run an op or wait for no one. It may be the caller itself, on another queue.
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
  std::vector<std::vector<const void*>> sources_;  // scratch for each member's sums
  std::vector<std::atomic<std::int64_t>> begun_;   // calls that each member has begun
  std::vector<std::atomic<std::int64_t>> left_;    // calls whose part each member has finished
  Gate gate_;
};

}  // namespace foretrain
