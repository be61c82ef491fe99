#include "runtime/nccl/nccl_set.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/units.h"
#include "runtime/nccl/nccl_endpoint.h"

namespace foretrain {
namespace {

constexpr auto kWatchEvery = std::chrono::milliseconds(50);
constexpr auto kPollEvery = std::chrono::microseconds(100);

bool IsP2p(OpKind kind) { return kind == OpKind::kSend || kind == OpKind::kRecv; }

// The queue that both ends of a transfer name it by: where it goes.
Queue QueueOfTransfer(OpKind kind, GroupKind group) {
  const bool up = (kind == OpKind::kSend) == (group == GroupKind::kNext);
  return up ? Queue::kSendNext : Queue::kSendPrev;
}

std::string NameOf(const std::vector<int>& members, Queue queue) {
  std::string name = "nccl " + std::string(Name(queue)) + " of ranks";
  for (const int member : members) name += " " + std::to_string(member);
  return name;
}

}  // namespace

NcclSet::NcclSet(int rank, const NcclApi& nccl, const FtDeviceApi& api, IdStore& store,
                 RunClock& clock, RunControl& control, NcclOptions options)
    : rank_(rank),
      nccl_(nccl),
      api_(api),
      store_(store),
      clock_(clock),
      control_(control),
      options_(options),
      watch_([this] { Watch(); }) {}

NcclSet::~NcclSet() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    over_ = true;
  }
  over_condition_.notify_all();
  watch_.join();
  if (aborted_ || control_.Aborted()) {
    AbortAll();
    return;
  }
  // Ending has been seen to hang for ever where a peer has died: in a thread that may stay behind.
  std::vector<NcclComm*> comms;
  for (const auto& [key, endpoint] : endpoints_) comms.push_back(endpoint->comm());
  struct Ending {
    std::mutex mutex;
    std::condition_variable condition;
    bool done = false;
  };
  // Shared by this thread and the one that may outlive it.
  const auto ending = std::make_shared<Ending>();
  std::thread ender([ending, comms, nccl = nccl_] {
    for (NcclComm* comm : comms) {
      static_cast<void>(nccl.ncclCommFinalize(comm));
      int state = kNcclInProgress;
      while (nccl.ncclCommGetAsyncError(comm, &state) == kNcclSuccess && state == kNcclInProgress) {
        std::this_thread::sleep_for(kPollEvery);
      }
      static_cast<void>(nccl.ncclCommDestroy(comm));
    }
    const std::lock_guard<std::mutex> lock(ending->mutex);
    ending->done = true;
    ending->condition.notify_all();
  });
  std::unique_lock<std::mutex> lock(ending->mutex);
  const bool done = ending->condition.wait_for(lock, std::chrono::nanoseconds(options_.timeout_ns),
                                               [&] { return ending->done; });
  lock.unlock();
  if (done) {
    ender.join();
  } else {
    ender.detach();
  }
}

std::string NcclSet::TextOf(int result, NcclComm* comm) const {
  const char* const text = nccl_.ncclGetErrorString(result);
  const char* const more = nccl_.ncclGetLastError(comm);
  std::string all = "NCCL: " + std::string(text != nullptr ? text : "gives no reason");
  if (more != nullptr && *more != '\0') all += ": " + std::string(more);
  return all;
}

int NcclSet::StateOf(NcclComm* comm) const {
  int state = kNcclSuccess;
  const int asked = nccl_.ncclCommGetAsyncError(comm, &state);
  return asked != kNcclSuccess ? asked : state;
}

template <class State>
Result<void> NcclSet::AwaitState(NcclComm* comm, const std::string& what, State state) const {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::nanoseconds(options_.timeout_ns);
  for (;;) {
    if (control_.Aborted()) return tl::unexpected<Error>(control_.AbortedError());
    const int now = state();
    if (now == kNcclSuccess) return {};
    if (now != kNcclInProgress) return Fail(ErrorCode::kIo, what + ": " + TextOf(now, comm));
    if (std::chrono::steady_clock::now() > deadline) {
      return Fail(ErrorCode::kTimeout, what + ": rank " + std::to_string(rank_) + " waited " +
                                           FormatSeconds(SecondsFromNs(options_.timeout_ns)) +
                                           " for NCCL; another rank has not come");
    }
    std::this_thread::sleep_for(kPollEvery);
  }
}

Result<void> NcclSet::Await(const NcclEndpoint& endpoint, const std::string& what) const {
  return AwaitState(nullptr, what, [&] { return endpoint.State(); });
}

Result<NcclComm*> NcclSet::Connect(const std::string& name, int members, int member) {
  NcclId id{};
  if (member == 0) {
    if (const int result = nccl_.ncclGetUniqueId(&id); result != kNcclSuccess) {
      return Fail(ErrorCode::kIo, name + ": " + TextOf(result, nullptr));
    }
    FT_TRY(store_.Put(name, std::string(id.bytes, sizeof id.bytes)));
  } else {
    FT_ASSIGN(const std::string bytes, store_.Get(name));
    if (bytes.size() != sizeof id.bytes) {
      return Fail(ErrorCode::kIo, name + ": its id has " + std::to_string(bytes.size()) +
                                      " bytes, not " + std::to_string(sizeof id.bytes));
    }
    std::memcpy(id.bytes, bytes.data(), sizeof id.bytes);
  }
  NcclConfig config;
  config.blocking = 0;
  NcclComm* comm = nullptr;
  const int result = nccl_.ncclCommInitRankConfig(&comm, members, id, member, &config);
  if (result != kNcclSuccess && result != kNcclInProgress) {
    return Fail(ErrorCode::kIo, name + ": " + TextOf(result, nullptr));
  }
  const auto made = AwaitState(comm, name, [&] { return StateOf(comm); });
  if (made.has_value()) return comm;
  static_cast<void>(nccl_.ncclCommAbort(comm));
  return tl::unexpected<Error>(made.error());
}

Result<Communicator*> NcclSet::Open(const std::vector<int>& members, GroupKind group, Queue queue,
                                    OpKind kind) {
  std::vector<int> ordered = members;
  Queue of = queue;
  if (IsP2p(kind)) {
    of = QueueOfTransfer(kind, group);
    // Sender first.
    if (ordered.size() == 2 && (ordered[0] == rank_) != (kind == OpKind::kSend)) {
      std::swap(ordered[0], ordered[1]);
    }
  }
  const auto place = std::find(ordered.begin(), ordered.end(), rank_);
  if (place == ordered.end() || (IsP2p(kind) && ordered.size() != 2)) {
    return Fail(ErrorCode::kInvalidArgument,
                "rank " + std::to_string(rank_) + " is no member of " + NameOf(ordered, of));
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = endpoints_.find({ordered, of});
    if (found != endpoints_.end()) return found->second.get();
  }
  // One thread opens the communicators of a rank, all ranks in an order that does not cross: the
  // program's.
  const int member = static_cast<int>(place - ordered.begin());
  const int count = static_cast<int>(ordered.size());
  FT_ASSIGN(NcclComm* const comm, Connect(NameOf(ordered, of), count, member));
  const std::lock_guard<std::mutex> lock(mutex_);
  auto& endpoint = endpoints_[{ordered, of}];
  endpoint = std::make_unique<NcclEndpoint>(*this, comm, count, member);
  return endpoint.get();
}

void NcclSet::Watch() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!over_condition_.wait_for(lock, kWatchEvery, [&] { return over_; })) {
    if (aborted_) continue;
    for (const auto& [key, endpoint] : endpoints_) {
      const int state = endpoint->State();
      if (state == kNcclSuccess || state == kNcclInProgress) continue;
      control_.Fail(rank_, {ErrorCode::kIo,
                            "rank " + std::to_string(rank_) + ", " + NameOf(key.first, key.second) +
                                ", " + endpoint->LastText() + ": " + TextOf(state, nullptr)});
      break;
    }
    if (!control_.Aborted()) continue;
    AbortAll();
  }
}

void NcclSet::AbortAll() {
  aborted_ = true;
  for (const auto& [key, endpoint] : endpoints_) endpoint->Abort();
}

}  // namespace foretrain
