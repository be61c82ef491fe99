// Devices, streams, events and graphs of the tests' CUDA runtime. Each function checks what
// CUDA documents for it, and leaves undone what CUDA leaves undone when it returns.
#include "tests/plugins/cuda/cudart/device.h"

namespace foretrain::cudart {
namespace {

bool IsGpu(int gpu) { return gpu >= 0 && gpu < TheSettings().gpus; }

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
    case cudaDevAttrMultiProcessorCount:
      *value = settings.multiprocessors;
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
  const ObservedCall call(FakeCall::kWaitForStream, handle);
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
  const ObservedCall call(FakeCall::kWaitForEvent, handle);
  return Give(handle, {[event, record] {
                std::unique_lock lock(event->mutex);
                event->changed.wait(lock, [&] { return event->completed >= record; });
              }});
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
  return Give(stream_handle, {[event, record] {
                {
                  const std::lock_guard lock(event->mutex);
                  event->completed = record;
                  event->time = std::chrono::steady_clock::now();
                }
                event->changed.notify_all();
              }});
}
cudaError_t cudaEventQuery(cudaEvent_t handle) {
  FT_BEGIN(BeginUnsafe);
  const auto event = TheState().events.Find(handle);
  if (event == nullptr) return Failed(cudaErrorInvalidResourceHandle);
  const ObservedCall call(FakeCall::kAskEvent, nullptr);
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
  auto graph = std::make_shared<Graph>(Graph{captured.nodes});
  *out = static_cast<cudaGraph_t>(TheState().graphs.Add(std::move(graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t handle, unsigned long long) {
  *out = nullptr;
  FT_BEGIN(BeginUnsafe);
  const auto graph = TheState().graphs.Find(handle);
  if (graph == nullptr) return Failed(cudaErrorInvalidValue);
  auto copy = std::make_shared<Graph>();
  for (const Node& node : graph->nodes) copy->nodes.push_back(MakeNode(node.work, node.number));
  *out = static_cast<cudaGraphExec_t>(TheState().executables.Add(std::move(copy)));
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream_handle) {
  FT_BEGIN(Begin);
  const auto graph = TheState().executables.Find(handle);
  const auto stream = TheState().streams.Find(stream_handle);
  if (graph == nullptr || stream == nullptr) return Failed(cudaErrorInvalidValue);
  const ObservedCall call(FakeCall::kLaunchGraph, stream_handle);
  const FakePlace place{stream->gpu(), stream->number()};
  return Give(stream_handle, {[graph, place, origin = ObservedCall::Current()] {
                for (const Node& node : graph->nodes) {
                  Do(node.work, origin, {place.device, place.stream, node.number});
                }
              }});
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
// The tests' libraries call these three (tests/plugins/give_to_stream.h).
int cudaFakeGive(void* stream, const char* name, void (*function)(void*), void* argument) {
  const ObservedCall call(FakeCall::kLaunchLibraryKernel, stream);
  return Give(stream, {[function, argument] { function(argument); },
                       {.kind = FakeWorkKind::kKernel,
                        .name = name,
                        .grid = {1, 1, 1},
                        .block = {32, 1, 1},
                        .registers = kRegisters}});
}
bool cudaFakeLibrariesRefuse() { return !TheSettings().libraries; }
bool cudaFakeNcclThreads() { return TheSettings().nccl_threads; }
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
