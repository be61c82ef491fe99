// State of the tests' CUDA runtime: its GPUs, their memory, streams, events and graphs. Work is
// done later, by a thread for each stream.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/plugins/cuda/cudart/observe.h"
#include "tests/plugins/cuda/cudart/settings.h"
#include "tests/plugins/cuda/kernels.h"

namespace foretrain::cudart {

// Reports wrong use that CUDA itself would not answer with an error. It is printed at once and
// counted; the report at exit has the number.
void Complain(const std::string& what);

// ---- GPUs

struct Gpu {
  std::atomic<std::size_t> used{0};
  std::set<int> peers;        // GPUs whose memory it may read; guarded by the state's mutex
  std::atomic<int> error{0};  // sticky error of a kernel; 0: none
};

struct Allocation {
  std::size_t bytes = 0;
  int gpu = -1;  // -1: pinned host memory
};

// ---- streams, events and graphs

struct Event {
  int gpu = 0;
  bool timed = false;
  std::mutex mutex;
  std::condition_variable changed;
  // Records so far, and the last one that the stream has reached; guarded by mutex, as is the time.
  std::uint64_t recorded = 0, completed = 0;
  std::chrono::steady_clock::time_point time;
  bool captured = false;  // last recorded in a stream that is captured
};

struct Capture {
  std::thread::id thread;
  std::vector<Node> nodes;
  bool invalid = false;
};

class Stream {
 public:
  explicit Stream(int gpu);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  // Finishes the work given so far.
  ~Stream();

  int gpu() const { return gpu_; }
  int number() const { return number_; }
  void Give(std::function<void()> work);
  // Waits until the work given so far is done.
  void Drain();

  std::optional<Capture> capture;  // only the capturing thread uses it

 private:
  void Run();

  int gpu_;
  const int number_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;  // guarded by mutex_, as are all below
  std::uint64_t given_ = 0, done_ = 0;
  bool ends_ = false;
  std::mt19937 delays_;
  std::thread thread_;
};

struct Graph {
  std::vector<Node> nodes;
};

// Objects by handle. A handle of a destroyed object is found invalid.
template <class T>
class Handles {
 public:
  void* Add(std::shared_ptr<T> object) {
    const std::lock_guard lock(mutex_);
    void* const handle = object.get();
    objects_[handle] = std::move(object);
    return handle;
  }
  std::shared_ptr<T> Find(const void* handle) {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    return found != objects_.end() ? found->second : nullptr;
  }
  // NULL if there is none.
  std::shared_ptr<T> Remove(const void* handle) {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    auto object = std::move(found->second);
    objects_.erase(found);
    return object;
  }
  std::vector<std::shared_ptr<T>> All() {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<T>> all;
    for (const auto& [handle, object] : objects_) all.push_back(object);
    return all;
  }
  std::size_t size() {
    const std::lock_guard lock(mutex_);
    return objects_.size();
  }

 private:
  std::mutex mutex_;
  std::map<const void*, std::shared_ptr<T>> objects_;
};

struct State {
  std::vector<std::unique_ptr<Gpu>> gpus;
  std::mutex mutex;
  std::map<std::uintptr_t, Allocation> allocations;  // guarded by mutex
  Handles<Stream> streams;
  Handles<Event> events;
  Handles<Graph> graphs, executables;
};
// Made on first use and never destroyed, because streams may still work at exit.
State& TheState();

inline Gpu& GpuOf(int gpu) { return *TheState().gpus[static_cast<std::size_t>(gpu)]; }

// Adds work to a stream, or to the graph that it captures.
cudaError_t Give(const void* stream, Work work);

// The allocation that contains an address; empty range if none does.
std::pair<ptx::Range, Allocation> AllocationAt(std::uintptr_t address);

// The allocation that contains an address, if a kernel of `gpu` may access it: memory of the GPU,
// of a peer, or of the host if it is pinned. Empty otherwise.
ptx::Range MemoryAt(int gpu, std::uintptr_t address);

// Launches of the kernel of this mangled name so far, and the work of those that have ended.
struct Launched {
  std::int64_t launches = 0;
  ptx::Counts counts;
};
Launched LaunchedOf(const std::string& kernel);

// The current GPU of the calling thread, and its last error.
int& CurrentGpu();
cudaError_t& LastError();
cudaError_t Failed(cudaError_t error);

// Number of streams that the calling thread captures. Some calls are then not allowed.
int& Captures();

// Beginning of an API function: a failure that the settings ask for, else a sticky error of the
// current GPU, else cudaSuccess.
cudaError_t Begin(const char* function);

// The same for calls that a thread must not make while it captures; they spoil the capture.
cudaError_t BeginUnsafe(const char* function);

// Opens an API function by one of these; returns their error.
#define FT_BEGIN(begin) \
  if (const cudaError_t error = begin(__func__); error != cudaSuccess) return error

}  // namespace foretrain::cudart
