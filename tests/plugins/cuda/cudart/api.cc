// Memory, copies, streams, events and graphs of the tests' CUDA runtime. Each function checks what
// CUDA documents for it, and leaves undone what CUDA leaves undone when it returns.
#include <cstdlib>
#include <cstring>

#include "tests/plugins/cuda/cudart/device.h"

namespace foretrain::cudart {
namespace {

constexpr int kUnwritten = 0xcd;
constexpr int kFreed = 0xdd;

#define FT_BEGIN(begin) \
  if (const cudaError_t error = begin(__func__); error != cudaSuccess) return error

Gpu& GpuOf(int gpu) { return *TheState().gpus[static_cast<std::size_t>(gpu)]; }

bool IsGpu(int gpu) { return gpu >= 0 && gpu < TheSettings().gpus; }

// Waits for all streams of a GPU, as cudaFree does.
void DrainGpu(int gpu) {
  for (const auto& stream : TheState().streams.All()) {
    if (stream->gpu() == gpu && !stream->capture) stream->Drain();
  }
}

cudaError_t Allocate(void** out, std::size_t bytes, int gpu) {
  if (out == nullptr) return Failed(cudaErrorInvalidValue);
  *out = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (gpu >= 0) {
    Gpu& of = GpuOf(gpu);
    if (of.used.fetch_add(bytes) + bytes > TheSettings().memory) {
      of.used -= bytes;
      return Failed(cudaErrorMemoryAllocation);
    }
  }
  constexpr std::size_t kPage = 4096;
  void* const memory = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  if (memory == nullptr) return Failed(cudaErrorMemoryAllocation);
  std::memset(memory, kUnwritten, bytes);
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  state.allocations[reinterpret_cast<std::uintptr_t>(memory)] = {bytes, gpu};
  *out = memory;
  return cudaSuccess;
}

cudaError_t Free(void* memory, bool pinned) {
  if (memory == nullptr) return cudaSuccess;
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const auto [range, allocation] = AllocationAt(address);
  if (range.begin != address || (allocation.gpu < 0) != pinned) {
    Complain("a release of memory that was not allocated so");
    return Failed(cudaErrorInvalidValue);
  }
  for (int gpu = 0; gpu < TheSettings().gpus; ++gpu) {
    if (pinned || gpu == allocation.gpu) DrainGpu(gpu);
  }
  if (!pinned) GpuOf(allocation.gpu).used -= allocation.bytes;
  {
    State& state = TheState();
    const std::lock_guard lock(state.mutex);
    state.allocations.erase(address);
  }
  std::memset(memory, kFreed, allocation.bytes);
  std::free(memory);
  return cudaSuccess;
}

// One side of a copy. CUDA stages copies from and to memory that is not pinned.
struct Side {
  bool pageable = false;
  bool valid = true;
};
Side SideOf(const void* at, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  const auto [range, allocation] = AllocationAt(address);
  if (range.end == 0) return {true, at != nullptr};
  return {false, range.Contains(address, bytes)};
}

// Adds work to a stream, or to the graph that it captures.
cudaError_t Give(void* handle, Work work) {
  const auto stream = TheState().streams.Find(handle);
  if (stream == nullptr) {
    if (handle == nullptr) Complain("work on the legacy stream");
    return Failed(cudaErrorInvalidResourceHandle);
  }
  if (stream->capture) {
    stream->capture->work.push_back(std::move(work));
  } else {
    stream->Give(std::move(work));
  }
  return cudaSuccess;
}

}  // namespace

extern "C" {

// ---- devices

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  FT_BEGIN(Begin);
  *count = TheSettings().gpus;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int gpu) {
  FT_BEGIN(Begin);
  if (!IsGpu(gpu)) return Failed(cudaErrorInvalidDevice);
  CurrentGpu() = gpu;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int gpu) {
  FT_BEGIN(Begin);
  if (!IsGpu(gpu)) return Failed(cudaErrorInvalidDevice);
  const Settings& settings = TheSettings();
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = settings.capability / 10;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = settings.capability % 10;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(settings.shared_bytes());
      return cudaSuccess;
    default:
      return Failed(cudaErrorInvalidValue);
  }
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int gpu, int peer) {
  FT_BEGIN(Begin);
  if (!IsGpu(gpu) || !IsGpu(peer)) return Failed(cudaErrorInvalidDevice);
  *can = gpu != peer ? 1 : 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  FT_BEGIN(BeginUnsafe);
  if (!IsGpu(peer) || peer == CurrentGpu()) return Failed(cudaErrorInvalidDevice);
  if (flags != 0) return Failed(cudaErrorInvalidValue);
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  const bool added = GpuOf(CurrentGpu()).peers.insert(peer).second;
  return added ? cudaSuccess : Failed(cudaErrorPeerAccessAlreadyEnabled);
}

// ---- memory

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  FT_BEGIN(Begin);
  *total = TheSettings().memory;
  *free = *total - GpuOf(CurrentGpu()).used;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** out, std::size_t bytes) {
  FT_BEGIN(BeginUnsafe);
  return Allocate(out, bytes, CurrentGpu());
}
cudaError_t cudaFree(void* memory) {
  FT_BEGIN(BeginUnsafe);
  return Free(memory, false);
}
cudaError_t cudaHostAlloc(void** out, std::size_t bytes, unsigned /*flags*/) {
  FT_BEGIN(BeginUnsafe);
  return Allocate(out, bytes, -1);
}
cudaError_t cudaFreeHost(void* memory) {
  FT_BEGIN(BeginUnsafe);
  return Free(memory, true);
}
// From pageable memory the bytes are read before the call returns; to pageable memory the call
// returns when they are written.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t handle) {
  FT_BEGIN(Begin);
  if (kind != cudaMemcpyDefault) return Failed(cudaErrorInvalidMemcpyDirection);
  if (bytes == 0) return cudaSuccess;
  const Side target = SideOf(to, bytes), source = SideOf(from, bytes);
  if (!target.valid || !source.valid) {
    Complain("a copy past the end of an allocation");
    return Failed(cudaErrorInvalidValue);
  }
  const auto stream = TheState().streams.Find(handle);
  Work work = [=] { std::memmove(to, from, bytes); };
  if (source.pageable && stream != nullptr && !stream->capture) {
    const auto* const read = static_cast<const std::byte*>(from);
    auto staged = std::make_shared<std::vector<std::byte>>(read, read + bytes);
    work = [=] { std::memcpy(to, staged->data(), bytes); };
  }
  if (const cudaError_t error = Give(handle, std::move(work)); error != cudaSuccess) return error;
  if (target.pageable && !stream->capture) stream->Drain();
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t handle) {
  FT_BEGIN(Begin);
  const Side target = SideOf(to, bytes);
  if (target.pageable || !target.valid) {
    Complain("a fill of memory that is not the device's");
    return Failed(cudaErrorInvalidValue);
  }
  return Give(handle, [=] { std::memset(to, value, bytes); });
}

// ---- streams

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) {
  FT_BEGIN(Begin);
  if (flags != cudaStreamNonBlocking) Complain("a stream that waits for the legacy stream");
  *out = static_cast<cudaStream_t>(TheState().streams.Add(std::make_shared<Stream>(CurrentGpu())));
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  FT_BEGIN(Begin);
  return TheState().streams.Remove(handle) != nullptr ? cudaSuccess
                                                      : Failed(cudaErrorInvalidResourceHandle);
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  FT_BEGIN(Begin);
  const auto stream = TheState().streams.Find(handle);
  if (stream == nullptr) return Failed(cudaErrorInvalidResourceHandle);
  if (stream->capture) {
    stream->capture->invalid = true;
    return Failed(cudaErrorStreamCaptureUnsupported);
  }
  stream->Drain();
  const int error = GpuOf(stream->gpu()).error;
  return error != 0 ? Failed(static_cast<cudaError_t>(error)) : cudaSuccess;
}
// An event of a stream that is not captured cannot be waited for in a capture.
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned flags) {
  FT_BEGIN(Begin);
  const auto stream = TheState().streams.Find(handle);
  const auto event = TheState().events.Find(event_handle);
  if (stream == nullptr || event == nullptr) return Failed(cudaErrorInvalidResourceHandle);
  if (flags != 0) return Failed(cudaErrorInvalidValue);
  std::uint64_t record = 0;
  {
    const std::lock_guard lock(event->mutex);
    record = event->recorded;
    if (event->captured != stream->capture.has_value() && record > 0) {
      if (stream->capture) stream->capture->invalid = true;
      return Failed(event->captured ? cudaErrorCapturedEvent : cudaErrorStreamCaptureIsolation);
    }
  }
  if (record == 0) Complain("a wait for an event that was never recorded, which does not wait");
  return Give(handle, [event, record] {
    std::unique_lock lock(event->mutex);
    event->changed.wait(lock, [&] { return event->completed >= record; });
  });
}
// ---- events

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags) {
  FT_BEGIN(Begin);
  auto event = std::make_shared<Event>();
  event->gpu = CurrentGpu();
  event->timed = (flags & cudaEventDisableTiming) == 0;
  *out = static_cast<cudaEvent_t>(TheState().events.Add(std::move(event)));
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  FT_BEGIN(Begin);
  return TheState().events.Remove(handle) != nullptr ? cudaSuccess
                                                     : Failed(cudaErrorInvalidResourceHandle);
}
cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  FT_BEGIN(Begin);
  const auto stream = TheState().streams.Find(stream_handle);
  const auto event = TheState().events.Find(handle);
  if (stream == nullptr || event == nullptr || event->gpu != stream->gpu()) {
    return Failed(cudaErrorInvalidResourceHandle);
  }
  std::uint64_t record = 0;
  {
    const std::lock_guard lock(event->mutex);
    record = ++event->recorded;
    event->captured = stream->capture.has_value();
  }
  return Give(stream_handle, [event, record] {
    {
      const std::lock_guard lock(event->mutex);
      event->completed = record;
      event->time = std::chrono::steady_clock::now();
    }
    event->changed.notify_all();
  });
}
cudaError_t cudaEventQuery(cudaEvent_t handle) {
  FT_BEGIN(BeginUnsafe);
  const auto event = TheState().events.Find(handle);
  if (event == nullptr) return Failed(cudaErrorInvalidResourceHandle);
  const std::lock_guard lock(event->mutex);
  if (event->captured) return Failed(cudaErrorCapturedEvent);
  return event->completed >= event->recorded ? cudaSuccess : Failed(cudaErrorNotReady);
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from_handle, cudaEvent_t to_handle) {
  FT_BEGIN(Begin);
  const auto from = TheState().events.Find(from_handle), to = TheState().events.Find(to_handle);
  if (from == nullptr || to == nullptr || !from->timed || !to->timed) {
    return Failed(cudaErrorInvalidResourceHandle);
  }
  const std::lock_guard lock(from->mutex);
  const std::lock_guard lock_to(to->mutex);
  if (from->recorded == 0 || to->recorded == 0) return Failed(cudaErrorInvalidResourceHandle);
  if (from->completed < from->recorded || to->completed < to->recorded) {
    return Failed(cudaErrorNotReady);
  }
  *ms = std::chrono::duration<float, std::milli>(to->time - from->time).count();
  return cudaSuccess;
}

// ---- graphs

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  FT_BEGIN(Begin);
  const auto stream = TheState().streams.Find(handle);
  if (stream == nullptr) return Failed(cudaErrorInvalidResourceHandle);
  if (mode != cudaStreamCaptureModeThreadLocal) Complain("a capture that stops other threads");
  if (stream->capture) return Failed(cudaErrorIllegalState);
  stream->capture = Capture{std::this_thread::get_id(), {}, false};
  ++Captures();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* out) {
  *out = nullptr;
  FT_BEGIN(Begin);
  const auto stream = TheState().streams.Find(handle);
  if (stream == nullptr) return Failed(cudaErrorInvalidResourceHandle);
  if (!stream->capture) return Failed(cudaErrorIllegalState);
  if (stream->capture->thread != std::this_thread::get_id()) {
    return Failed(cudaErrorStreamCaptureWrongThread);
  }
  const Capture captured = std::move(*stream->capture);
  stream->capture.reset();
  --Captures();
  if (captured.invalid) return Failed(cudaErrorStreamCaptureInvalidated);
  auto graph = std::make_shared<Graph>(Graph{captured.work});
  *out = static_cast<cudaGraph_t>(TheState().graphs.Add(std::move(graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t handle, unsigned long long) {
  *out = nullptr;
  FT_BEGIN(BeginUnsafe);
  const auto graph = TheState().graphs.Find(handle);
  if (graph == nullptr) return Failed(cudaErrorInvalidValue);
  *out = static_cast<cudaGraphExec_t>(TheState().executables.Add(std::make_shared<Graph>(*graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream) {
  FT_BEGIN(Begin);
  const auto graph = TheState().executables.Find(handle);
  if (graph == nullptr) return Failed(cudaErrorInvalidValue);
  return Give(stream, [graph] {
    for (const Work& work : graph->work) work();
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t handle) {
  FT_BEGIN(Begin);
  return TheState().graphs.Remove(handle) != nullptr ? cudaSuccess : Failed(cudaErrorInvalidValue);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle) {
  FT_BEGIN(Begin);
  return TheState().executables.Remove(handle) != nullptr ? cudaSuccess
                                                          : Failed(cudaErrorInvalidValue);
}

// ---- errors and versions

cudaError_t cudaGetLastError() {
  const cudaError_t error = LastError();
  LastError() = cudaSuccess;
  return error;
}
const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorMisalignedAddress:
      return "cudaErrorMisalignedAddress";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorUnknown:
      return "cudaErrorUnknown";
    default:
      return "cudaError";
  }
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorNoDevice ? "no CUDA-capable device is detected"
                                    : "an error of the tests' CUDA runtime";
}
// The tests' libraries call these two (tests/plugins/give_to_stream.h).
int cudaFakeGive(void* stream, void (*function)(void*), void* argument) {
  return Give(stream, [function, argument] { function(argument); });
}
bool cudaFakeLibrariesRefuse() { return !TheSettings().libraries; }
cudaError_t cudaRuntimeGetVersion(int* version) {
  FT_BEGIN(Begin);
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaProfilerStart() {
  FT_BEGIN(Begin);
  return cudaSuccess;
}
cudaError_t cudaProfilerStop() {
  FT_BEGIN(Begin);
  return cudaSuccess;
}

}  // extern "C"

}  // namespace foretrain::cudart
