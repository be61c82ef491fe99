#include "runtime/inproc/inproc_world.h"

#include <algorithm>
#include <utility>

#include "runtime/inproc/channel.h"

namespace foretrain {
namespace {

// One member's end of a channel.
class Endpoint : public Communicator {
 public:
  Endpoint(InprocChannel& channel, int member, Queue queue)
      : channel_(channel), member_(member), at_(queue) {}

  Result<CommTimes> Call(const CommCall& call, FtQueue* queue) override {
    return channel_.Call(member_, sequence_++, call, at_, queue);
  }

 private:
  InprocChannel& channel_;
  const int member_;
  const Queue at_;
  std::int64_t sequence_ = 0;
};

// Both ends of a transfer name it by where it goes.
bool GoesUp(OpKind kind, GroupKind group) {
  return (kind == OpKind::kSend) == (group == GroupKind::kNext);
}

}  // namespace

class InprocSet : public CommunicatorSet {
 public:
  InprocSet(InprocWorld& world, int rank) : world_(world), rank_(rank) {}

  Result<Communicator*> Open(const std::vector<int>& members, GroupKind group, Queue queue,
                             OpKind kind) override {
    return world_.Open(*this, rank_, members, group, queue, kind);
  }

 private:
  friend class InprocWorld;
  InprocWorld& world_;
  const int rank_;
  std::map<std::pair<InprocChannel*, Queue>, std::unique_ptr<Endpoint>> endpoints_;
};

InprocWorld::InprocWorld(int ranks, const FtDeviceApi& api, RunClock& clock, RunControl& control,
                         FlightRecorder& flight, InprocOptions options)
    : waits_(std::make_unique<WaitTable>(ranks)),
      context_(std::make_unique<ChannelContext>(
          ChannelContext{api, clock, control, flight, options.timeout_ns,
                         std::move(options.op_text), *waits_, options.device})) {
  for (int rank = 0; rank < ranks; ++rank)
    sets_.push_back(std::make_unique<InprocSet>(*this, rank));
}

InprocWorld::~InprocWorld() = default;

CommunicatorSet& InprocWorld::Rank(int rank) { return *sets_[static_cast<std::size_t>(rank)]; }

Result<Communicator*> InprocWorld::Open(InprocSet& set, int rank, std::vector<int> members,
                                        GroupKind group, Queue queue, OpKind kind) {
  const bool p2p = kind == OpKind::kSend || kind == OpKind::kRecv;
  if (p2p && members.size() != 2) {
    return Fail(ErrorCode::kInvalidArgument,
                "rank " + std::to_string(rank) + ": a " + std::string(Name(kind)) +
                    " to a group of " + std::to_string(members.size()) + " ranks; it joins two");
  }
  Queue channel_queue = queue;
  if (p2p) {
    // Sender first. Where both neighbours are one rank, the way round the ring tells two apart.
    channel_queue = GoesUp(kind, group) ? Queue::kSendNext : Queue::kSendPrev;
    const bool sends = kind == OpKind::kSend;
    if ((members[0] == rank) != sends) std::swap(members[0], members[1]);
  }
  const auto place = std::find(members.begin(), members.end(), rank);
  if (place == members.end()) {
    return Fail(ErrorCode::kInvalidArgument, "rank " + std::to_string(rank) +
                                                 " is not a member of the group " +
                                                 std::string(Name(group)) + " that it calls");
  }
  const int member = static_cast<int>(place - members.begin());
  const std::lock_guard<std::mutex> lock(mutex_);
  auto& channel = channels_[Key(members, channel_queue)];
  if (channel == nullptr) channel = std::make_unique<InprocChannel>(*context_, members);
  auto& endpoint = set.endpoints_[{channel.get(), queue}];
  if (endpoint == nullptr) endpoint = std::make_unique<Endpoint>(*channel, member, queue);
  return endpoint.get();
}

}  // namespace foretrain
