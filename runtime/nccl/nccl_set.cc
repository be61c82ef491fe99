#include "runtime/nccl/nccl_set.h"

#include <chrono>
#include <cstring>

#include "base/units.h"
#include "runtime/nccl/nccl_endpoint.h"

namespace foretrain {
namespace {

// The interval of the watching thread, and that of a wait for a call to be accepted.
constexpr auto kWatchEvery = std::chrono::milliseconds(50);
constexpr auto kPollEvery = std::chrono::microseconds(100);

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

// After an abort the communicators are freed at once. Otherwise they are finalized, which waits for
// the peers.
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
  // Finalizing can hang if a peer has died, so it runs in a thread that may be left behind.
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

// A failure of the question itself counts as the communicator's state.
int NcclSet::StateOf(NcclComm* comm) const {
  int state = kNcclSuccess;
  const int asked = nccl_.ncclCommGetAsyncError(comm, &state);
  return asked != kNcclSuccess ? asked : state;
}

// NCCL runs in non-blocking mode: its state is polled, so that an abort or the timeout can end the
// wait.
template <class State>
Result<void> NcclSet::AwaitState(NcclComm* comm, const std::string& what, State state) const {
  const auto begin = std::chrono::steady_clock::now();
  const auto deadline = begin + std::chrono::nanoseconds(options_.timeout_ns);
  for (;;) {
    if (control_.Aborted()) return tl::unexpected<Error>(control_.AbortedError());
    const int now = state();
    if (now == kNcclSuccess) return {};
    if (now != kNcclInProgress) return Fail(ErrorCode::kIo, what + ": " + TextOf(now, comm));
    const auto at = std::chrono::steady_clock::now();
    if (at > deadline) {
      return Fail(ErrorCode::kTimeout, what + ": rank " + std::to_string(rank_) + " waited " +
                                           FormatSeconds(SecondsFromNs(options_.timeout_ns)) +
                                           " for NCCL; another rank has not come");
    }
    if (at - begin < kPollEvery) {
      std::this_thread::yield();  // most calls are accepted at once
    } else {
      std::this_thread::sleep_for(kPollEvery);
    }
  }
}

Result<void> NcclSet::Await(const NcclEndpoint& endpoint, const std::string& what) const {
  return AwaitState(nullptr, what, [&] { return endpoint.State(); });
}

// Member 0 creates the id and publishes it under the communicator's name; the others fetch it. All
// members then join with it.
Result<NcclComm*> NcclSet::Connect(const ChannelKey& key) {
  const std::string name = key.Text("nccl");
  const int members = static_cast<int>(key.members.size());
  const int member = key.MemberOf(rank_);
  // NCCL uses the calling thread's current device. Creating an event on the device makes it
  // current.
  if (api_.asynchronous != 0) {
    FT_TRY(DeviceEvent::Make(api_, options_.device, /*timed=*/false));
  }
  NcclId id{};
  if (member == 0) {
    if (const int result = nccl_.ncclGetUniqueId(&id); result != kNcclSuccess) {
      return Fail(ErrorCode::kIo, name + ": " + TextOf(result, nullptr));
    }
    FT_TRY(store_.Put(rank_, name, std::string(id.bytes, sizeof id.bytes)));
  } else {
    FT_ASSIGN(const std::string bytes,
              store_.Get(key.members.front(), name, [this] { return control_.Aborted(); }));
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
  FT_ASSIGN(const ChannelKey key, KeyOf(rank_, members, group, queue, kind));
  return Open(key);
}

Result<Communicator*> NcclSet::Open(const ChannelKey& key) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = endpoints_.find(key);
    if (found != endpoints_.end()) return found->second.get();
  }
  // Only one thread opens a rank's communicators, so the lock need not be held while connecting.
  const int member = key.MemberOf(rank_);
  const int count = static_cast<int>(key.members.size());
  FT_ASSIGN(NcclComm* const comm, Connect(key));
  const std::lock_guard<std::mutex> lock(mutex_);
  auto& endpoint = endpoints_[key];
  endpoint = std::make_unique<NcclEndpoint>(*this, comm, count, member);
  return endpoint.get();
}

// The watching thread: reports a communicator's asynchronous error as the run's, and aborts all
// communicators when the run ends, which ends their kernels.
void NcclSet::Watch() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!over_condition_.wait_for(lock, kWatchEvery, [&] { return over_; })) {
    if (aborted_) continue;
    for (const auto& [key, endpoint] : endpoints_) {
      const int state = endpoint->State();
      if (state == kNcclSuccess || state == kNcclInProgress) continue;
      control_.Fail(
          rank_, {ErrorCode::kIo, "rank " + std::to_string(rank_) + ", " + key.Text("nccl") + ", " +
                                      endpoint->LastText() + ": " + TextOf(state, nullptr)});
      break;
    }
    if (!control_.Aborted()) continue;
    AbortAll();
  }
}

// The kernels of an aborted communicator end, which releases the streams that wait for them.
void NcclSet::AbortAll() {
  aborted_ = true;
  for (const auto& [key, endpoint] : endpoints_) endpoint->Abort();
}

}  // namespace foretrain
