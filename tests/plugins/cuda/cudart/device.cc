#include "tests/plugins/cuda/cudart/device.h"

#include <cstdio>
#include <cstdlib>

namespace foretrain::cudart {
namespace {

std::atomic<std::int64_t> complaints{0};
std::atomic<std::int64_t> matching_calls{0};  // of the function that is to fail
std::atomic<int> streams_made{0};

}  // namespace

void Complain(const std::string& what) {
  ++complaints;
  std::fprintf(stderr, "fake cudart: %s\n", what.c_str());
}

State& TheState() {
  static State* const state = [] {
    auto* const made = new State;
    for (int i = 0; i < TheSettings().gpus; ++i) made->gpus.push_back(std::make_unique<Gpu>());
    return made;
  }();
  return *state;
}

cudaError_t Give(const void* handle, Work work) {
  const auto stream = TheState().streams.Find(handle);
  if (stream == nullptr) {
    if (handle == nullptr) Complain("work on the legacy stream");
    return Failed(cudaErrorInvalidResourceHandle);
  }
  if (stream->capture) {
    stream->capture->nodes.push_back(MakeNode(std::move(work)));
    return cudaSuccess;
  }
  const FakePlace place{stream->gpu(), stream->number()};
  stream->Give([work = std::move(work), origin = ObservedCall::Current(), place] {
    Do(work, origin, place);
  });
  return cudaSuccess;
}

std::pair<ptx::Range, Allocation> AllocationAt(std::uintptr_t address) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  auto found = state.allocations.upper_bound(address);
  if (found == state.allocations.begin()) return {};
  --found;
  const ptx::Range range{found->first, found->first + found->second.bytes};
  if (address >= range.end) return {};
  return {range, found->second};
}

ptx::Range MemoryAt(int gpu, std::uintptr_t address) {
  const auto [range, allocation] = AllocationAt(address);
  if (range.end == 0 || allocation.gpu < 0 || allocation.gpu == gpu) return range;
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  return state.gpus[static_cast<std::size_t>(gpu)]->peers.contains(allocation.gpu) ? range
                                                                                   : ptx::Range{};
}

int& CurrentGpu() {
  thread_local int current = 0;
  return current;
}
cudaError_t& LastError() {
  thread_local cudaError_t error = cudaSuccess;
  return error;
}
cudaError_t Failed(cudaError_t error) {
  if (error != cudaSuccess) LastError() = error;
  return error;
}
int& Captures() {
  thread_local int captures = 0;
  return captures;
}

extern "C" bool cudaFakeFails(const char* function) {
  const Settings& settings = TheSettings();
  return settings.fail_function == function && ++matching_calls == settings.fail_call;
}

cudaError_t Begin(const char* function) {
  if (cudaFakeFails(function)) return Failed(cudaErrorUnknown);
  if (TheSettings().gpus == 0) return Failed(cudaErrorNoDevice);
  const int error = GpuOf(CurrentGpu()).error;
  return error != 0 ? Failed(static_cast<cudaError_t>(error)) : cudaSuccess;
}

cudaError_t BeginUnsafe(const char* function) {
  if (Captures() > 0) {
    for (const auto& stream : TheState().streams.All()) {
      if (stream->capture && stream->capture->thread == std::this_thread::get_id()) {
        stream->capture->invalid = true;
      }
    }
    return Failed(cudaErrorStreamCaptureUnsupported);
  }
  return Begin(function);
}

// CUPTI numbers streams in the order of their creation; the smallest numbers are the driver's.
Stream::Stream(int gpu)
    : gpu_(gpu),
      number_(++streams_made + 6),
      delays_(
          static_cast<std::mt19937::result_type>(TheSettings().late + TheState().streams.size())),
      thread_([this] { Run(); }) {}

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Stream::Give(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    ++given_;
  }
  changed_.notify_all();
}

void Stream::Drain() {
  std::unique_lock lock(mutex_);
  const std::uint64_t given = given_;
  changed_.wait(lock, [&] { return done_ >= given; });
}

void Stream::Run() {
  CurrentGpu() = gpu_;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ends_ || !work_.empty(); });
    if (work_.empty()) return;
    const std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    if (TheSettings().late != 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(delays_() % 200));
    }
    work();
    lock.lock();
    ++done_;
    changed_.notify_all();
  }
}

namespace {

// Written when the process ends. Destroyed objects that CUDA frees itself are no leaks.
struct Report {
  ~Report() {
    State& state = TheState();
    const std::string& file = TheSettings().report;
    if (file.empty()) return;
    std::FILE* const out = std::fopen(file.c_str(), "w");
    if (out == nullptr) return;
    std::fprintf(out, "complaints %lld\nallocations %zu\nstreams %zu\nevents %zu\ngraphs %zu\n",
                 static_cast<long long>(complaints.load()), state.allocations.size(),
                 state.streams.size(), state.events.size(),
                 state.graphs.size() + state.executables.size());
    for (const ptx::Kernel* kernel : ptx::AllKernels()) {
      std::fprintf(out, "%s %s", LaunchedOf(kernel->name).launches > 0 ? "launched" : "never",
                   kernel->name.c_str());
      for (const std::string& site : kernel->sites) std::fprintf(out, " %s", site.c_str());
      std::fprintf(out, "\n");
    }
    std::fclose(out);
  }
} report;

}  // namespace
}  // namespace foretrain::cudart
