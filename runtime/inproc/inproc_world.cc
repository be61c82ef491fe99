#include "runtime/inproc/inproc_world.h"

#include <utility>

#include "runtime/inproc/channel.h"

namespace foretrain {
namespace {

// One member's end of a channel; it numbers the member's calls.
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

}  // namespace

// A rank's endpoints, by channel and queue. The world's mutex_ guards them.
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

// Ranks without a device in the options use device 0.
InprocWorld::InprocWorld(int ranks, const FtDeviceApi& api, RunClock& clock, RunControl& control,
                         FlightRecorder& flight, InprocOptions options)
    : waits_(std::make_unique<WaitTable>(ranks)),
      context_(std::make_unique<ChannelContext>(
          ChannelContext{api, clock, control, flight, options.timeout_ns,
                         std::move(options.op_text), *waits_, std::move(options.devices)})) {
  context_->devices.resize(static_cast<std::size_t>(ranks), 0);
  for (int rank = 0; rank < ranks; ++rank)
    sets_.push_back(std::make_unique<InprocSet>(*this, rank));
}

InprocWorld::~InprocWorld() = default;

CommunicatorSet& InprocWorld::Rank(int rank) { return *sets_[static_cast<std::size_t>(rank)]; }

// The first member to open a communicator creates its channel. Queues of one rank share a channel
// but have their own endpoints.
Result<Communicator*> InprocWorld::Open(InprocSet& set, int rank, std::vector<int> members,
                                        GroupKind group, Queue queue, OpKind kind) {
  FT_ASSIGN(ChannelKey key, KeyOf(rank, std::move(members), group, queue, kind));
  const int member = key.MemberOf(rank);
  const std::lock_guard<std::mutex> lock(mutex_);
  auto& channel = channels_[key];
  if (channel == nullptr) channel = std::make_unique<InprocChannel>(*context_, key.members);
  auto& endpoint = set.endpoints_[{channel.get(), queue}];
  if (endpoint == nullptr) endpoint = std::make_unique<Endpoint>(*channel, member, queue);
  return endpoint.get();
}

}  // namespace foretrain
