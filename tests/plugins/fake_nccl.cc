// A libnccl.so.2 of the tests: ranks are threads, memory is the host's, work is done where the last
// member comes, and a call goes wrong on demand.
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fake_nccl.h"

namespace {

using foretrain::FakeNccl;
FakeNccl control;

struct Id {
  char bytes[128];
};
struct Comm;
struct Part {
  Comm* comm;
  const void* in;
  void* out;
  std::size_t count;
  int what, type, op;
};
struct Group {
  int ranks = 0;
  std::vector<Comm*> members;
  std::map<std::int64_t, std::vector<Part>> calls;              // by number
  std::map<std::pair<int, int>, std::deque<std::string>> sent;  // by (from, to)
  std::map<std::pair<int, int>, std::deque<std::pair<Comm*, std::pair<void*, std::size_t>>>> asked;
};
struct Comm {
  Group* group;
  int rank;
  std::int64_t calls = 0;
  int pending = 0;
  bool finalized = false;
};
std::mutex mutex;
std::map<std::string, Group> groups;  // guarded by mutex, as all of them
thread_local int opened = 0;

bool Fails() { return control.calls.fetch_add(1) == control.fail_at.load(); }

std::size_t BytesOf(int type) {
  return type == 9 || type == 6 ? 2 : type == 7 || type == 2 ? 4 : type == 8 ? 8 : 1;
}

float Joined(float a, float b, int op) { return op == 2 ? (a > b ? a : b) : a + b; }

// What `count` elements from `first` on of all members add up to: fp32, or int32 by maximum.
std::vector<float> Sum(const std::vector<Part>& parts, std::size_t first, std::size_t count) {
  std::vector<float> sum(count);
  for (std::size_t i = 0; i < count; ++i) {
    for (const Part& part : parts) {
      const float x = static_cast<const float*>(part.in)[first + i];
      sum[i] = &part == &parts.front() ? x : Joined(sum[i], x, part.op);
    }
  }
  return sum;
}

void Finish(std::vector<Part>& parts) {
  const std::size_t count = parts.front().count, n = parts.size();
  const std::size_t bytes = count * BytesOf(parts.front().type);
  std::vector<std::vector<char>> gathered(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto* in = static_cast<const char*>(parts[i].in);
    gathered[i].assign(in, in + bytes);
  }
  std::vector<std::vector<float>> sums(n);
  for (std::size_t i = 0; i < n; ++i) {
    if (parts[i].what == 'a') sums[i] = Sum(parts, 0, count);
    if (parts[i].what == 's') sums[i] = Sum(parts, i * count, count);
  }
  for (std::size_t i = 0; i < n; ++i) {
    auto* out = static_cast<char*>(parts[i].out);
    if (parts[i].what == 'g') {
      for (std::size_t j = 0; j < n; ++j) std::memcpy(out + j * bytes, gathered[j].data(), bytes);
    } else {
      std::memcpy(out, sums[i].data(), bytes);
    }
    --parts[i].comm->pending;
  }
}

int Join(Comm* comm, Part part) {
  if (Fails()) return 3;
  const std::lock_guard<std::mutex> lock(mutex);
  const std::int64_t number = comm->calls++;
  auto& parts = comm->group->calls[number];
  parts.resize(static_cast<std::size_t>(comm->group->ranks));
  parts[static_cast<std::size_t>(comm->rank)] = part;
  ++comm->pending;
  for (const Part& other : parts) {
    if (other.comm == nullptr) return 7;
  }
  Finish(parts);
  comm->group->calls.erase(number);
  return 7;
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
  *comm = new Comm{&group, rank};
  ++control.live;
  group.members.push_back(*comm);
  return 7;
}
FT_EXPORT int ncclCommGetAsyncError(Comm* comm, int* error) {
  const std::lock_guard<std::mutex> lock(mutex);
  const bool whole = static_cast<int>(comm->group->members.size()) == comm->group->ranks;
  *error = !whole || comm->pending > 0 ? 7 : 0;
  if (whole && comm->rank == control.async_error_rank) *error = 6;
  if (comm->finalized && control.hang_finalize) *error = 7;
  return 0;
}
FT_EXPORT int ncclCommFinalize(Comm* comm) {
  const std::lock_guard<std::mutex> lock(mutex);
  comm->finalized = true;
  return 7;
}
FT_EXPORT int ncclCommDestroy(Comm* comm) {
  delete comm;
  --control.live;
  return 0;
}
FT_EXPORT int ncclCommAbort(Comm* comm) {
  const std::lock_guard<std::mutex> lock(mutex);
  // What others would still do for it.
  for (auto& [number, parts] : comm->group->calls) {
    for (Part& part : parts) {
      if (part.comm == comm) part.comm = nullptr;
    }
  }
  for (auto& [ends, asked] : comm->group->asked) {
    std::erase_if(asked, [&](const auto& one) { return one.first == comm; });
  }
  ++control.aborts;
  delete comm;
  --control.live;
  return 0;
}
FT_EXPORT const char* ncclGetErrorString(int error) {
  return error == 6 ? "remote process exited" : error == 3 ? "internal error" : "system error";
}
FT_EXPORT const char* ncclGetLastError(Comm*) { return "the fake was told to fail"; }

FT_EXPORT int ncclAllReduce(const void* in, void* out, std::size_t count, int type, int op,
                            Comm* comm, void*) {
  return Join(comm, {comm, in, out, count, 'a', type, op});
}
FT_EXPORT int ncclReduceScatter(const void* in, void* out, std::size_t each, int type, int op,
                                Comm* comm, void*) {
  return Join(comm, {comm, in, out, each, 's', type, op});
}
FT_EXPORT int ncclAllGather(const void* in, void* out, std::size_t each, int type, Comm* comm,
                            void*) {
  return Join(comm, {comm, in, out, each, 'g', type, 0});
}
FT_EXPORT int ncclSend(const void* in, std::size_t count, int type, int peer, Comm* comm, void*) {
  if (Fails()) return 3;
  const std::size_t bytes = count * BytesOf(type);
  const std::lock_guard<std::mutex> lock(mutex);
  auto& asked = comm->group->asked[{comm->rank, peer}];
  if (asked.empty()) {
    comm->group->sent[{comm->rank, peer}].emplace_back(static_cast<const char*>(in), bytes);
    return 0;
  }
  const auto [to, room] = asked.front();
  asked.pop_front();
  std::memcpy(room.first, in, std::min(bytes, room.second));
  --to->pending;
  return 0;
}
FT_EXPORT int ncclRecv(void* out, std::size_t count, int type, int peer, Comm* comm, void*) {
  if (Fails()) return 3;
  const std::size_t bytes = count * BytesOf(type);
  const std::lock_guard<std::mutex> lock(mutex);
  auto& sent = comm->group->sent[{peer, comm->rank}];
  if (sent.empty()) {
    comm->group->asked[{peer, comm->rank}].push_back({comm, {out, bytes}});
    ++comm->pending;
    return 7;
  }
  std::memcpy(out, sent.front().data(), std::min(bytes, sent.front().size()));
  sent.pop_front();
  return 0;
}
FT_EXPORT int ncclGroupStart() {
  if (Fails()) return 3;
  ++opened;
  return 0;
}
FT_EXPORT int ncclGroupEnd() {
  if (--opened < 0) control.unbalanced = true;
  return Fails() ? 3 : 7;
}
}
