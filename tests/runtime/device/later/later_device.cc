// Longer than other files, because it holds all entries of a device's table.
#include "tests/runtime/device/later/later_device.h"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/runtime/device/later/later_memory.h"

namespace foretrain {
namespace {

const FtDeviceApi* inner = nullptr;

std::int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Guards events; queues wait for them here.
std::mutex event_mutex;
std::condition_variable event_reached;

struct LaterEvent {
  std::uint64_t recorded = 0;  // guarded by event_mutex, as all below
  std::uint64_t reached = 0;
  std::int64_t time_ns = 0;
  bool timed = false;
  int device = 0;
  int users = 1;  // work items that hold it, plus its owner
};
LaterEvent* EventOf(FtEvent* event) { return reinterpret_cast<LaterEvent*>(event); }
void Drop(LaterEvent* event) {
  bool last = false;
  {
    const std::lock_guard<std::mutex> lock(event_mutex);
    last = --event->users == 0;
  }
  if (last) delete event;
}

class LaterQueue {
 public:
  using Work = std::function<FtStatus(FtQueue*)>;

  LaterQueue(FtQueue* at, int on) : device(on), at_(at), thread_([this] { Run(); }) {}
  ~LaterQueue() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
    thread_.join();
    inner->queue_destroy(at_);
  }

  void Push(Work work) {
    if (noted != nullptr) {
      noted->push_back(std::move(work));
      return;
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      works_.push_back(std::move(work));
      ++pushed_;
    }
    changed_.notify_all();
  }
  void Synchronize() {
    std::unique_lock<std::mutex> lock(mutex_);
    const std::int64_t all = pushed_;
    changed_.wait(lock, [&] { return done_ >= all; });
  }

  char error[64] = "";                       // for the calling thread, as `noted` is
  std::shared_ptr<std::vector<Work>> noted;  // shared by the graph and its launches
  const int device;
  std::set<int> reads;  // devices whose memory it may read; used by the thread that gives it work

 private:
  void Run() {
    for (;;) {
      Work work;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return closed_ || !works_.empty(); });
        if (works_.empty()) return;
        work = std::move(works_.front());
        works_.pop_front();
      }
      if (work(at_) != FT_OK) Later().broken = true;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        ++done_;
      }
      changed_.notify_all();
    }
  }

  FtQueue* const at_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> works_;  // guarded by mutex_, as all below
  std::int64_t pushed_ = 0;
  std::int64_t done_ = 0;
  bool closed_ = false;
  std::thread thread_;
};
LaterQueue& QueueOf(FtQueue* queue) { return *reinterpret_cast<LaterQueue*>(queue); }

void NoteForeign(const LaterQueue& queue, const void* at, bool reads) {
  const std::optional<int> device = DeviceOfLater(at);
  if (!device || *device == queue.device) return;
  const bool is_allowed = reads && queue.reads.count(*device) > 0;
  ++(is_allowed ? Later().peer_reads : Later().foreign);
}

// Replaces the addresses in an entry's arguments that lie in the device's memory.
template <class Arguments>
Arguments Reachable(const Arguments& arguments) {
  static_assert(std::is_trivially_copyable_v<Arguments>);
  Arguments reachable = arguments;
  auto* const bytes = reinterpret_cast<char*>(&reachable);
  for (std::size_t at = 0; at + sizeof(void*) <= sizeof reachable; at += sizeof(void*)) {
    void* pointer = nullptr;
    std::memcpy(&pointer, bytes + at, sizeof pointer);
    pointer = ReachableLater(pointer);
    std::memcpy(bytes + at, &pointer, sizeof pointer);
  }
  return reachable;
}

constexpr const char* kTold = "the device was told to fail";
constexpr const char* kBroken = "an illegal memory access";

bool Fails() { return Later().calls.fetch_add(1) == Later().fail_at.load(); }
FtStatus Say(char* why, std::size_t n, FtStatus status = FT_OUT_OF_MEMORY) {
  std::snprintf(why, n, "%s", kTold);
  return status;
}
void Tell(FtQueue* queue, const char* text) {
  std::snprintf(QueueOf(queue).error, sizeof LaterQueue::error, "%s", text);
}
// Status of a call on a queue; sets the error text if it fails.
FtStatus Enter(FtQueue* queue) {
  const bool fails = Fails();
  if (!fails && !Later().broken) return FT_OK;
  Tell(queue, fails ? kTold : kBroken);
  return FT_FAILED;
}

// For calls whose answer depends on the moment: they cannot be part of a graph.
FtStatus EnterAlone(FtQueue* queue) {
  if (QueueOf(queue).noted == nullptr) return Enter(queue);
  Tell(queue, "not while a graph is noted");
  return FT_FAILED;
}

// Gives the queue a work item, with the faults that the test asks for.
FtStatus Give(FtQueue* queue, LaterQueue::Work work) {
  if (const FtStatus status = Enter(queue); status != FT_OK) return status;
  QueueOf(queue).Push([work = std::move(work)](FtQueue* at) {
    LaterDevice& later = Later();
    const std::int64_t number = later.works.fetch_add(1);
    if (later.broken) return FT_OK;  // a device that has failed runs nothing
    if (number == later.break_at) return FT_FAILED;
    if (const std::uint64_t seed = later.delays; seed != 0) {
      const std::uint64_t mixed =
          (seed * 1000003 + static_cast<std::uint64_t>(number)) * 0x9e3779b97f4a7c15U;
      if (mixed >> 63 != 0) std::this_thread::sleep_for(std::chrono::microseconds(mixed % 200));
    }
    return work(at);
  });
  return FT_OK;
}

void Nap() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

void HangIfAsked() {
  LaterDevice& later = Later();
  if (later.kernels.fetch_add(1) != later.hang_at) return;
  while (!later.released) Nap();
}

FtStatus DeviceCount(std::int32_t* count, char* why, std::size_t n) {
  if (Fails()) return Say(why, n);
  const FtStatus status = inner->device_count(count, why, n);
  if (status == FT_OK) *count = Later().devices;
  return status;
}
FtStatus Memory(std::int32_t device, FtMemory* out, char* why, std::size_t n) {
  if (Fails()) return Say(why, n);
  (void)device;
  return inner->memory(0, out, why, n);
}
FtStatus Allocate(std::int32_t device, std::int64_t bytes, void** out, char* why, std::size_t n) {
  *out = nullptr;
  if (Fails()) return Say(why, n);
  *out = AllocateLater(bytes, device);
  if (*out == nullptr) {
    std::snprintf(why, n, "no memory for %lld bytes", static_cast<long long>(bytes));
    return FT_OUT_OF_MEMORY;
  }
  ++Later().allocations;
  return FT_OK;
}
FtStatus Release(std::int32_t, void* pointer, char*, std::size_t) {
  --Later().allocations;
  ReleaseLater(pointer);
  return FT_OK;
}
FtStatus HostAllocate(std::int32_t device, std::int64_t bytes, void** out, char* why,
                      std::size_t n) {
  *out = nullptr;
  if (Fails()) return Say(why, n);
  (void)device;
  const FtStatus status = inner->allocate(0, bytes, out, why, n);
  if (status == FT_OK) ++Later().pinned;
  return status;
}
FtStatus HostRelease(std::int32_t device, void* pointer, char* why, std::size_t n) {
  --Later().pinned;
  (void)device;
  return inner->release(0, pointer, why, n);
}

FtStatus QueueCreate(std::int32_t device, FtQueue** out, char* why, std::size_t n) {
  *out = nullptr;
  if (Fails()) return Say(why, n);
  FtQueue* at = nullptr;
  if (const FtStatus status = inner->queue_create(0, &at, why, n); status != FT_OK) {
    return status;
  }
  *out = reinterpret_cast<FtQueue*>(new LaterQueue(at, device));
  ++Later().queues;
  return FT_OK;
}
FtStatus SharesCreate(std::int32_t, std::int32_t count, std::int32_t multiprocessors, FtShare** out,
                      std::int32_t* each, char* why, std::size_t n) {
  if (Fails()) return Say(why, n);
  *each = (multiprocessors + 7) / 8 * 8;
  if (*each * count > 132) {
    std::snprintf(why, n, "132 multiprocessors do not make %d shares", static_cast<int>(count));
    return FT_UNSUPPORTED;
  }
  for (int i = 0; i < count; ++i) out[i] = reinterpret_cast<FtShare*>(new int(i));
  Later().shares += count;
  return FT_OK;
}
void ShareDestroy(FtShare* share) {
  delete reinterpret_cast<int*>(share);
  --Later().shares;
}
FtStatus QueueReserve(FtQueue* queue) {
  QueueOf(queue).Push([](FtQueue* at) { return inner->queue_reserve(at); });
  return FT_OK;
}
FtStatus QueueCreateIn(FtShare*, FtQueue** out, char* why, std::size_t n) {
  ++Later().shared_queues;
  return QueueCreate(0, out, why, n);
}
void QueueDestroy(FtQueue* queue) {
  delete &QueueOf(queue);
  --Later().queues;
}
const char* QueueError(const FtQueue* queue) {
  return reinterpret_cast<const LaterQueue*>(queue)->error;
}
FtStatus QueueSynchronize(FtQueue* queue) {
  if (const FtStatus status = EnterAlone(queue); status != FT_OK) return status;
  QueueOf(queue).Synchronize();
  if (!Later().broken) return FT_OK;
  Tell(queue, kBroken);
  return FT_FAILED;
}

FtStatus EventCreate(std::int32_t device, std::int32_t timed, FtEvent** out, char* why,
                     std::size_t n) {
  *out = nullptr;
  if (Fails()) return Say(why, n);
  auto* const event = new LaterEvent;
  event->timed = timed != 0;
  event->device = device;
  *out = reinterpret_cast<FtEvent*>(event);
  ++Later().events;
  return FT_OK;
}
void EventDestroy(FtEvent* event) {
  Drop(EventOf(event));
  --Later().events;
}
FtStatus EventRecord(FtQueue* queue, FtEvent* event) {
  if (const FtStatus status = EnterAlone(queue); status != FT_OK) return status;
  LaterEvent* const at = EventOf(event);
  std::uint64_t number = 0;
  {
    const std::lock_guard<std::mutex> lock(event_mutex);
    number = ++at->recorded;
    ++at->users;
  }
  QueueOf(queue).Push([at, number](FtQueue*) {
    {
      const std::lock_guard<std::mutex> lock(event_mutex);
      at->reached = number;
      at->time_ns = NowNs();
    }
    event_reached.notify_all();
    Drop(at);
    return FT_OK;
  });
  return FT_OK;
}
FtStatus EventWait(FtQueue* queue, FtEvent* event) {
  if (const FtStatus status = EnterAlone(queue); status != FT_OK) return status;
  LaterEvent* const at = EventOf(event);
  QueueOf(queue).reads.insert(at->device);
  std::uint64_t number = 0;
  {
    const std::lock_guard<std::mutex> lock(event_mutex);
    number = at->recorded;
    ++at->users;
  }
  QueueOf(queue).Push([at, number](FtQueue*) {
    {
      std::unique_lock<std::mutex> lock(event_mutex);
      if (at->reached < number) ++Later().waits;
      event_reached.wait(lock, [&] { return at->reached >= number; });
    }
    Drop(at);
    return FT_OK;
  });
  return FT_OK;
}
FtStatus EventQuery(FtEvent* event, std::int32_t* done, char* why, std::size_t n) {
  *done = 0;
  if (Later().queries.fetch_add(1) == Later().query_fail_at) return Say(why, n, FT_FAILED);
  if (Later().broken) {
    std::snprintf(why, n, "%s", kBroken);
    return FT_FAILED;
  }
  const std::lock_guard<std::mutex> lock(event_mutex);
  *done = EventOf(event)->reached >= EventOf(event)->recorded ? 1 : 0;
  return FT_OK;
}
FtStatus EventElapsed(FtEvent* from, FtEvent* to, std::int64_t* ns, char* why, std::size_t n) {
  if (Fails()) return Say(why, n, FT_FAILED);
  const std::lock_guard<std::mutex> lock(event_mutex);
  const LaterEvent &a = *EventOf(from), &b = *EventOf(to);
  if (!a.timed || !b.timed || a.reached == 0 || b.reached < b.recorded) {
    std::snprintf(why, n, "an event without a time");
    return FT_FAILED;
  }
  *ns = b.time_ns - a.time_ns;
  return FT_OK;
}

struct LaterGraph {
  std::shared_ptr<const std::vector<LaterQueue::Work>> works;  // shared with its launches
};
FtStatus EnterGraph(FtQueue* queue) {
  if (Later().graph_calls.fetch_add(1) != Later().graph_fail_at) return Enter(queue);
  Tell(queue, kTold);
  return FT_FAILED;
}
FtStatus GraphBegin(FtQueue* queue) {
  if (const FtStatus status = EnterGraph(queue); status != FT_OK) return status;
  QueueOf(queue).noted = std::make_shared<std::vector<LaterQueue::Work>>();
  return FT_OK;
}
FtStatus GraphEnd(FtQueue* queue, FtGraph** out) {
  *out = nullptr;
  const auto works = std::exchange(QueueOf(queue).noted, nullptr);
  if (const FtStatus status = EnterGraph(queue); status != FT_OK) return status;
  *out = reinterpret_cast<FtGraph*>(new LaterGraph{works});
  ++Later().graphs;
  return FT_OK;
}
FtStatus GraphLaunch(FtQueue* queue, FtGraph* graph) {
  if (const FtStatus status = EnterGraph(queue); status != FT_OK) return status;
  ++Later().graph_launches;
  const auto works = reinterpret_cast<LaterGraph*>(graph)->works;
  for (std::size_t i = 0; i < works->size(); ++i) {
    QueueOf(queue).Push([works, i](FtQueue* at) { return (*works)[i](at); });
  }
  return FT_OK;
}
void GraphDestroy(FtGraph* graph) {
  delete reinterpret_cast<LaterGraph*>(graph);
  --Later().graphs;
}
FtStatus Copy(FtQueue* queue, void* to, const void* from, std::int64_t bytes) {
  NoteForeign(QueueOf(queue), to, false);
  NoteForeign(QueueOf(queue), from, true);
  return Give(queue, [to = ReachableLater(to), from = ReachableLater(from), bytes](FtQueue* at) {
    LaterDevice& later = Later();
    while (bytes == sizeof(float) && later.hang_reads && !later.released) Nap();
    return inner->copy(at, to, from, bytes);
  });
}
FtStatus Fill(FtQueue* queue, void* to, std::int32_t value, std::int64_t bytes) {
  return Give(queue, [to = ReachableLater(to), value, bytes](FtQueue* at) {
    return inner->fill(at, to, value, bytes);
  });
}
std::int32_t Supports(FtKernel kernel, FtDtype dtype) { return inner->supports(kernel, dtype); }

// Arguments are valid only during the call, so they are copied.
template <auto entry, class Arguments>
FtStatus Launch(FtQueue* queue, const Arguments* arguments) {
  return Give(queue, [held = Reachable(*arguments)](FtQueue* at) {
    HangIfAsked();
    return (inner->*entry)(at, &held);
  });
}
FtStatus SumRanks(FtQueue* queue, const FtSumRanks* sum) {
  std::vector<const void*> sources(sum->sources, sum->sources + sum->count);
  for (const void*& source : sources) source = ReachableLater(source);
  return Give(queue, [held = Reachable(*sum), sources](FtQueue* at) {
    FtSumRanks here = held;
    here.sources = sources.data();
    return inner->sum_ranks(at, &here);
  });
}

template <auto entry, class Arguments>
void Set(FtDeviceApi& api, FtStatus (*)(FtQueue*, const Arguments*)) {
  api.*entry = &Launch<entry, Arguments>;
}

#define FT_SET(name) \
  if (inner->name != nullptr) Set<&FtDeviceApi::name>(api, inner->name)

void SetKernels(FtDeviceApi& api) {
  FT_SET(gemm);
  FT_SET(bias_grad);
  FT_SET(embedding_forward);
  FT_SET(embedding_backward);
  FT_SET(norm_forward);
  FT_SET(norm_backward_input);
  FT_SET(norm_backward_weight);
  FT_SET(rope);
  FT_SET(attention_forward);
  FT_SET(attention_backward);
  FT_SET(gelu_forward);
  FT_SET(gelu_backward);
  FT_SET(swiglu_forward);
  FT_SET(swiglu_backward);
  FT_SET(add);
  FT_SET(add_norm_forward);
  FT_SET(cross_entropy_forward);
  FT_SET(cross_entropy_backward);
  FT_SET(cross_entropy);
  FT_SET(vocab_max);
  FT_SET(vocab_sums);
  FT_SET(vocab_loss);
  FT_SET(route);
  FT_SET(route_backward);
  FT_SET(expert_gather);
  FT_SET(expert_combine);
  FT_SET(expert_dots);
  FT_SET(grouped_gemm);
  FT_SET(squared_norm);
  FT_SET(adamw);
  FT_SET(sgd);
  FT_SET(factor_sums);
  FT_SET(factor_moments);
  FT_SET(factor_size);
  FT_SET(adafactor);
  FT_SET(count_not_finite);
  FT_SET(count_skipped);
  FT_SET(quantize);
  FT_SET(dequantize);
  FT_SET(attention_part_forward);
  FT_SET(attention_part_backward);
  FT_SET(copy_rows);
  FT_SET(dropout);
  FT_SET(dropout_backward);
  FT_SET(count_choices);
  FT_SET(balance_bias);
  FT_SET(scale_loss);
}
#undef FT_SET

void* NativeQueue(FtQueue* queue) { return queue; }

FtDeviceApi MakeApi() {
  FtDeviceApi api{};
  api.version = FT_DEVICE_API_VERSION;
  api.asynchronous = 1;
  api.name = "later";
  api.device_count = DeviceCount;
  api.memory = Memory;
  api.allocate = Allocate;
  api.release = Release;
  api.queue_create = QueueCreate;
  api.queue_destroy = QueueDestroy;
  api.queue_error = QueueError;
  api.queue_synchronize = QueueSynchronize;
  api.event_create = EventCreate;
  api.event_destroy = EventDestroy;
  api.event_record = EventRecord;
  api.event_wait = EventWait;
  api.copy = Copy;
  api.fill = Fill;
  api.event_query = EventQuery;
  api.event_elapsed = EventElapsed;
  api.host_allocate = HostAllocate;
  api.host_release = HostRelease;
  api.native_queue = NativeQueue;
  api.shares_create = SharesCreate;
  api.share_destroy = ShareDestroy;
  api.queue_create_in = QueueCreateIn;
  if (inner->queue_reserve != nullptr) api.queue_reserve = QueueReserve;
  api.graph_begin = GraphBegin;
  api.graph_end = GraphEnd;
  api.graph_launch = GraphLaunch;
  api.graph_destroy = GraphDestroy;
  api.supports = Supports;
  SetKernels(api);
  if (inner->sum_ranks != nullptr) api.sum_ranks = SumRanks;
  return api;
}

}  // namespace

void GiveLater(void* queue, void (*work)(void*), void* argument) {
  QueueOf(static_cast<FtQueue*>(queue)).Push([work, argument](FtQueue*) {
    work(argument);
    return FT_OK;
  });
}

LaterDevice& Later() {
  static LaterDevice later;
  return later;
}

const FtDeviceApi& LaterDeviceApi(const FtDeviceApi& device) {
  static FtDeviceApi api;
  inner = &device;
  api = MakeApi();
  return api;
}

}  // namespace foretrain
