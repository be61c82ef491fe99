// A libnccl.so.2 for tests: ranks are threads, memory is the host's, and calls fail on demand. Like
// NCCL's kernels, a collective blocks its stream until all members have come, and a send until it
// is received. So an order of work that would deadlock in NCCL deadlocks here too.
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fake_nccl.h"
#include "give_to_stream.h"

namespace {

using foretrain::FakeNccl;
FakeNccl control;

constexpr int kInProgress = 7;

struct Id {
  char bytes[128];
};
struct Part {
  const void* in;
  void* out;
  std::size_t count;
  int what, type, op;
};
struct Call {
  std::vector<std::optional<Part>> parts;
  int came = 0;
  bool done = false;
};
struct Post {
  const void* in;
  std::size_t bytes;
  bool taken = false;
};
struct Group {
  int ranks = 0;
  int members = 0;
  std::map<std::int64_t, std::shared_ptr<Call>> calls;                      // by number
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Post>>> posted;  // by (from, to)
};
struct Comm {
  Group* group;
  int rank;
  std::int64_t calls = 0;
  int pending = 0;  // if no work is deferred
  bool finalized = false;
  bool aborted = false;
};
// Deferred work may outlive the handle, so it shares ownership.
using Held = std::shared_ptr<Comm>;

std::mutex mutex;
std::condition_variable changed;
std::map<std::string, Group> groups;  // guarded by mutex, as are all of them
std::map<Comm*, Held> comms;          // guarded by mutex

Held Hold(Comm* comm) {
  const std::lock_guard<std::mutex> lock(mutex);
  return comms.at(comm);
}

bool Fails() { return control.calls.fetch_add(1) == control.fail_at.load(); }

std::size_t BytesOf(int type) {
  return type == 9 || type == 6 ? 2 : type == 7 || type == 2 ? 4 : type == 8 ? 8 : 1;
}

float Read(const void* from, int type, std::size_t i) {
  if (type != 9) return static_cast<const float*>(from)[i];
  const std::uint32_t bits = std::uint32_t{static_cast<const std::uint16_t*>(from)[i]} << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
void Write(void* to, int type, std::size_t i, float value) {
  if (type != 9) {
    static_cast<float*>(to)[i] = value;
    return;
  }
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  bits += 0x7fff + (bits >> 16 & 1);  // to nearest, ties to even
  static_cast<std::uint16_t*>(to)[i] = static_cast<std::uint16_t>(bits >> 16);
}
float Joined(float a, float b, int op) { return op == 2 ? (a > b ? a : b) : a + b; }

// Sum over all members of `count` elements from `first` on, added in the order of members.
std::vector<float> Sum(const Call& call, std::size_t first, std::size_t count) {
  std::vector<float> sum(count);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t member = 0; member < call.parts.size(); ++member) {
      const Part& part = *call.parts[member];
      const float x = Read(part.in, part.type, first + i);
      sum[i] = member == 0 ? x : Joined(sum[i], x, part.op);
    }
  }
  return sum;
}

void Finish(Call& call) {
  const Part& any = *call.parts.front();
  const std::size_t count = any.count, n = call.parts.size();
  const std::size_t bytes = count * BytesOf(any.type);
  // Everything is read before anything is written: in place, the output of one is the input of
  // another.
  std::vector<std::vector<char>> gathered(n);
  std::vector<std::vector<float>> sums(n);
  for (std::size_t i = 0; i < n; ++i) {
    const Part& part = *call.parts[i];
    const auto* in = static_cast<const char*>(part.in);
    if (part.what == 'g') gathered[i].assign(in, in + bytes);
    if (part.what == 'a') sums[i] = Sum(call, 0, count);
    if (part.what == 's') sums[i] = Sum(call, i * count, count);
  }
  for (std::size_t i = 0; i < n; ++i) {
    const Part& part = *call.parts[i];
    auto* out = static_cast<char*>(part.out);
    for (std::size_t j = 0; part.what == 'g' && j < n; ++j) {
      std::memcpy(out + j * bytes, gathered[j].data(), bytes);
    }
    for (std::size_t j = 0; part.what != 'g' && j < count; ++j)
      Write(out, part.type, j, sums[i][j]);
  }
}

// The part of a call that a stream executes.
void Meet(const Held& comm, std::int64_t number, const Part& part) {
  std::unique_lock<std::mutex> lock(mutex);
  if (comm->aborted) return;
  auto& slot = comm->group->calls[number];
  if (slot == nullptr) slot = std::make_shared<Call>();
  const std::shared_ptr<Call> call = slot;
  call->parts.resize(static_cast<std::size_t>(comm->group->ranks));
  auto& mine = call->parts[static_cast<std::size_t>(comm->rank)];
  mine = part;
  if (++call->came == comm->group->ranks) {
    Finish(*call);
    call->done = true;
    comm->group->calls.erase(number);
    changed.notify_all();
    return;
  }
  changed.wait(lock, [&] { return call->done || comm->aborted; });
  if (call->done) return;
  mine.reset();
  --call->came;
}

struct Transfer {
  Held comm;
  void* stream;
  bool sends;
  int peer;
  void* at;
  std::size_t bytes;
};
thread_local int opened = 0;
thread_local std::vector<Transfer> grouped;

void Exchange(const Held& comm, const std::vector<Transfer>& transfers) {
  std::unique_lock<std::mutex> lock(mutex);
  Group& group = *comm->group;
  std::vector<std::pair<std::pair<int, int>, std::shared_ptr<Post>>> posts;
  for (const Transfer& transfer : transfers) {
    if (!transfer.sends || comm->aborted) continue;
    const std::pair<int, int> way{comm->rank, transfer.peer};
    posts.emplace_back(way, std::make_shared<Post>(Post{transfer.at, transfer.bytes}));
    group.posted[way].push_back(posts.back().second);
  }
  changed.notify_all();
  for (const Transfer& transfer : transfers) {
    if (transfer.sends) continue;
    auto& from = group.posted[{transfer.peer, comm->rank}];
    changed.wait(lock, [&] { return !from.empty() || comm->aborted; });
    if (comm->aborted) break;
    std::memcpy(transfer.at, from.front()->in, std::min(transfer.bytes, from.front()->bytes));
    from.front()->taken = true;
    from.pop_front();
    changed.notify_all();
  }
  for (const auto& [way, post] : posts) {
    changed.wait(lock, [&, at = post] { return at->taken || comm->aborted; });
    if (!post->taken) std::erase(group.posted[way], post);
  }
}

constexpr const char* kKernel = "fake_nccl_kernel";

// Runs the work when its turn on the stream comes or, without streams, on a thread of its own. Such
// a thread gives it to the stream if the settings say so, as NCCL does since 2.23.4.
int Give(const Held& comm, void* stream, std::function<void()> work) {
  if (control.give != nullptr) {
    control.give(
        stream,
        [](void* held) {
          const std::unique_ptr<std::function<void()>> at(
              static_cast<std::function<void()>*>(held));
          (*at)();
        },
        new std::function<void()>(std::move(work)));
    return kInProgress;
  }
  const bool has_streams = cudaFakeGive != nullptr;
  if (has_streams && !cudaFakeNcclThreads()) {
    return foretrain::GiveToStream(stream, kKernel, std::move(work)) ? kInProgress : 1;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex);
    ++comm->pending;
  }
  std::thread([comm, stream, has_streams, work = std::move(work)] {
    if (has_streams) {
      foretrain::GiveToStream(stream, kKernel, work);
    } else {
      work();
    }
    const std::lock_guard<std::mutex> lock(mutex);
    --comm->pending;
  }).detach();
  return kInProgress;
}

void* Reach(void* tensor) { return control.reach != nullptr ? control.reach(tensor) : tensor; }

int Join(Comm* handle, Part part, void* stream) {
  if (Fails()) return 3;
  part.in = Reach(const_cast<void*>(part.in));
  part.out = Reach(part.out);
  const Held comm = Hold(handle);
  std::int64_t number = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    number = comm->calls++;
  }
  return Give(comm, stream, [comm, number, part] { Meet(comm, number, part); });
}

int Add(Transfer transfer) {
  if (Fails()) {
    grouped.clear();
    return 3;
  }
  if (opened <= 0) return 4;  // the runtime issues all transfers in groups
  transfer.at = Reach(transfer.at);
  grouped.push_back(std::move(transfer));
  return 0;
}

}  // namespace

extern "C" {
#define FT_EXPORT __attribute__((visibility("default")))

FT_EXPORT FakeNccl* fake_nccl() { return &control; }

FT_EXPORT int ncclGetVersion(int* version) {
  *version = control.version;
  return 0;
}
FT_EXPORT int ncclGetUniqueId(Id* id) {
  if (Fails()) return 2;
  static std::atomic<int> next{0};
  std::memset(id, 0, sizeof *id);
  const int number = ++next;
  std::memcpy(id->bytes, &number, sizeof number);
  return 0;
}
struct Config {
  std::size_t size;
  unsigned magic, version;
  int blocking;
};
FT_EXPORT int ncclCommInitRankConfig(Comm** comm, int ranks, Id id, int rank, Config* config) {
  if (Fails()) return 2;
  if (config->magic != 0xcafebeef || config->blocking != 0 || config->size != sizeof(Config)) {
    return 4;
  }
  const std::lock_guard<std::mutex> lock(mutex);
  Group& group = groups[std::string(id.bytes, sizeof id.bytes)];
  group.ranks = ranks;
  ++group.members;
  const Held held = std::make_shared<Comm>(Comm{&group, rank});
  *comm = held.get();
  comms[held.get()] = held;
  ++control.live;
  ++control.made;
  return kInProgress;
}
FT_EXPORT int ncclCommGetAsyncError(Comm* comm, int* error) {
  const std::lock_guard<std::mutex> lock(mutex);
  const bool whole = comm->group->members == comm->group->ranks;
  *error = !whole || comm->pending > 0 ? kInProgress : 0;
  if (whole && comm->rank == control.async_error_rank) *error = 6;
  if (comm->finalized && control.hang_finalize) *error = kInProgress;
  return 0;
}
FT_EXPORT int ncclCommFinalize(Comm* comm) {
  const std::lock_guard<std::mutex> lock(mutex);
  comm->finalized = true;
  return kInProgress;
}
FT_EXPORT int ncclCommDestroy(Comm* comm) {
  const std::lock_guard<std::mutex> lock(mutex);
  comms.erase(comm);
  --control.live;
  return 0;
}
FT_EXPORT int ncclCommAbort(Comm* comm) {
  const std::lock_guard<std::mutex> lock(mutex);
  comm->aborted = true;
  changed.notify_all();
  comms.erase(comm);
  ++control.aborts;
  --control.live;
  return 0;
}
FT_EXPORT const char* ncclGetErrorString(int error) {
  return error == 6 ? "remote process exited" : error == 3 ? "internal error" : "system error";
}
FT_EXPORT const char* ncclGetLastError(Comm*) { return "the fake was told to fail"; }

FT_EXPORT int ncclAllReduce(const void* in, void* out, std::size_t count, int type, int op,
                            Comm* comm, void* stream) {
  return Join(comm, {in, out, count, 'a', type, op}, stream);
}
FT_EXPORT int ncclReduceScatter(const void* in, void* out, std::size_t each, int type, int op,
                                Comm* comm, void* stream) {
  return Join(comm, {in, out, each, 's', type, op}, stream);
}
FT_EXPORT int ncclAllGather(const void* in, void* out, std::size_t each, int type, Comm* comm,
                            void* stream) {
  return Join(comm, {in, out, each, 'g', type, 0}, stream);
}
FT_EXPORT int ncclSend(const void* in, std::size_t count, int type, int peer, Comm* comm,
                       void* stream) {
  return Add({Hold(comm), stream, true, peer, const_cast<void*>(in), count * BytesOf(type)});
}
FT_EXPORT int ncclRecv(void* out, std::size_t count, int type, int peer, Comm* comm, void* stream) {
  return Add({Hold(comm), stream, false, peer, out, count * BytesOf(type)});
}
FT_EXPORT int ncclGroupStart() {
  if (Fails()) return 3;
  ++opened;
  return 0;
}
FT_EXPORT int ncclGroupEnd() {
  if (--opened < 0) control.unbalanced = true;
  const std::vector<Transfer> transfers = std::exchange(grouped, {});
  if (Fails()) return 3;
  if (transfers.empty()) return 0;
  const Held comm = transfers.front().comm;
  return Give(comm, transfers.front().stream, [comm, transfers] { Exchange(comm, transfers); });
}
}
