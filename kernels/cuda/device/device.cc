// The CUDA device: memory, streams as queues, events, copies, and its table except capture.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <new>

#include "kernels/cuda/device/entries.h"
#include "kernels/cuda/device/graph.h"
#include "kernels/cuda/device/queue.h"
#include "kernels/cuda/device/share.h"
#include "kernels/cuda/hopper/tensor_kernels.h"
#include "kernels/cuda/library/library_attention.h"
#include "kernels/cuda/library/library_gemm.h"

namespace foretrain {
namespace {

double GiB(std::size_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(std::int64_t{1} << 30);
}

// FT_OK, or the library's error text after a description of the call.
FtStatus Told(cudaError_t error, const char* what, int32_t device, char* why, size_t n) {
  if (error == cudaSuccess) return FT_OK;
  static_cast<void>(cudaGetLastError());  // clears it, or the next launch would report it
  std::snprintf(why, n, "cuda device %d: %s: %s (%s)", static_cast<int>(device), what,
                cudaGetErrorString(error), cudaGetErrorName(error));
  return error == cudaErrorMemoryAllocation ? FT_OUT_OF_MEMORY : FT_FAILED;
}

// The same for a call on a queue; the text becomes the queue's error.
FtStatus Told(FtQueue* queue, cudaError_t error, const char* what) {
  CudaQueue& q = QueueOf(queue);
  return Told(error, what, q.device, q.error, sizeof q.error);
}

// CUDA's current device belongs to the calling thread, so every entry chooses it first.
FtStatus Choose(int32_t device, char* why, size_t n) {
  return Told(cudaSetDevice(device), "choose the device", device, why, n);
}

// A machine without a driver or GPU is not a bug: `why` then says what is missing.
FtStatus DeviceCount(int32_t* count, char* why, size_t n) {
  int found = 0;
  const cudaError_t error = cudaGetDeviceCount(&found);
  *count = error == cudaSuccess ? found : 0;
  if (error == cudaSuccess && found > 0) return FT_OK;
  static_cast<void>(cudaGetLastError());
  const cudaError_t named = error == cudaSuccess ? cudaErrorNoDevice : error;
  std::snprintf(why, n, "%s (%s)", cudaGetErrorString(named), cudaGetErrorName(named));
  return FT_FAILED;
}

FtStatus Memory(int32_t device, FtMemory* out, char* why, size_t n) {
  if (const FtStatus status = Choose(device, why, n); status != FT_OK) return status;
  std::size_t free = 0, total = 0;
  const FtStatus status =
      Told(cudaMemGetInfo(&free, &total), "ask for free memory", device, why, n);
  *out = {static_cast<std::int64_t>(free), static_cast<std::int64_t>(total)};
  return status;
}

}  // namespace

// On failure reports free memory as of now, which shows fragmentation if it exceeds the request.
FtStatus Allocate(int32_t device, int64_t bytes, void** out, char* why, size_t n) {
  *out = nullptr;
  if (const FtStatus status = Choose(device, why, n); status != FT_OK) return status;
  if (bytes < 0) {
    std::snprintf(why, n, "cuda device %d: asked to allocate %lld bytes", static_cast<int>(device),
                  static_cast<long long>(bytes));
    return FT_FAILED;
  }
  const cudaError_t error = cudaMalloc(out, bytes > 0 ? static_cast<std::size_t>(bytes) : 256);
  if (error != cudaErrorMemoryAllocation) {
    return Told(error, "allocate", device, why, n);
  }
  static_cast<void>(cudaGetLastError());
  std::size_t free = 0, total = 0;
  static_cast<void>(cudaMemGetInfo(&free, &total));
  *out = nullptr;
  std::snprintf(
      why, n, "cuda device %d: out of device memory: asked %.2f GiB, free %.2f GiB of %.2f",
      static_cast<int>(device), GiB(static_cast<std::size_t>(bytes)), GiB(free), GiB(total));
  return FT_OUT_OF_MEMORY;
}

namespace {

FtStatus Release(int32_t device, void* pointer, char* why, size_t n) {
  if (const FtStatus status = Choose(device, why, n); status != FT_OK) return status;
  return Told(cudaFree(pointer), "release memory", device, why, n);
}

// This table's extensions of a queue and an event.
struct DeviceQueue : CudaQueue {
  std::uint64_t reads = 0;  // one bit per device whose memory this one may read
};
struct DeviceEvent {
  cudaEvent_t event = nullptr;
  int device = 0;
};
DeviceEvent& EventOf(FtEvent* event) { return *reinterpret_cast<DeviceEvent*>(event); }

// Lets the queue's device read another device's memory. A queue that waits for another device's
// event may read that device's memory afterwards.
FtStatus AllowReading(FtQueue* queue, int other) {
  auto& q = static_cast<DeviceQueue&>(QueueOf(queue));
  if (other == q.device || (q.reads >> other & 1U) != 0) return FT_OK;
  int can = 0;
  FtStatus status = Told(queue, cudaDeviceCanAccessPeer(&can, q.device, other),
                         "ask for another device's memory");
  if (status != FT_OK) return status;
  if (can == 0) {
    std::snprintf(q.error, sizeof q.error, "cuda device %d cannot read the memory of device %d",
                  q.device, other);
    return FT_FAILED;
  }
  const cudaError_t error = cudaDeviceEnablePeerAccess(other, 0);
  if (error == cudaErrorPeerAccessAlreadyEnabled) {
    static_cast<void>(cudaGetLastError());
  } else {
    status = Told(queue, error, "read another device's memory");
  }
  if (status == FT_OK) q.reads |= std::uint64_t{1} << other;
  return status;
}

// Also called for a queue whose creation failed half-way, so each part may be missing.
void QueueDestroy(FtQueue* queue) {
  auto* const q = static_cast<DeviceQueue*>(&QueueOf(queue));
  static_cast<void>(cudaSetDevice(q->device));
  DestroyGemmLibrary(q->gemm);
  // A queue may be destroyed with work pending: cudaFree waits for the device.
  if (q->workspace != nullptr) static_cast<void>(cudaFree(q->workspace));
  DestroyAttentionLibrary(q->attention);
  if (q->stream != nullptr) {
    static_cast<void>(cudaStreamDestroy(static_cast<cudaStream_t>(q->stream)));
  }
  delete q;
}

// Compute capability as one number: 90 for 9.0. Kernels for tensor cores are chosen by it. Blocks
// of some take as many tiles as there are multiprocessors.
FtStatus AskCapability(CudaQueue& queue, char* why, size_t n) {
  int major = 0, minor = 0;
  FtStatus status =
      Told(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, queue.device),
           "ask for its capability", queue.device, why, n);
  if (status != FT_OK) return status;
  status = Told(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, queue.device),
                "ask for its capability", queue.device, why, n);
  queue.capability = 10 * major + minor;
  if (status != FT_OK) return status;
  return Told(
      cudaDeviceGetAttribute(&queue.multiprocessors, cudaDevAttrMultiProcessorCount, queue.device),
      "ask for its multiprocessors", queue.device, why, n);
}

FtStatus FillQueue(CudaQueue& queue, int32_t device, char* why, size_t n) {
  queue.device = device;
  FtStatus status = FT_OK;
  if (queue.stream == nullptr) {
    cudaStream_t stream = nullptr;
    status = Told(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "make a stream",
                  device, why, n);
    queue.stream = stream;
  }
  if (status != FT_OK) return status;
  queue.turned_bytes = kTurnedBytes;
  int shared = 0;
  status = Told(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
                "ask for shared memory", device, why, n);
  queue.shared_bytes = shared;
  if (status == FT_OK) status = AskCapability(queue, why, n);
  return status != FT_OK ? status : MakeGemmLibrary(&queue.gemm, why, n);
}

FtStatus QueueCreate(int32_t device, FtQueue** out, char* why, size_t n) {
  return MakeCudaQueue(device, nullptr, out, why, n);
}

FtStatus QueueReserve(FtQueue* queue) { return ReserveWorkspace(queue); }

const char* QueueError(const FtQueue* queue) { return QueueOf(queue).error; }

// Reports errors of all earlier kernels on the queue, because launches do not wait.
FtStatus QueueSynchronize(FtQueue* queue) {
  if (const FtStatus status = UseDevice(queue); status != FT_OK) return status;
  return Told(queue, cudaStreamSynchronize(static_cast<cudaStream_t>(StreamOf(queue))),
              "wait for the queue");
}

// Events without timing are cheaper to record.
FtStatus EventCreate(int32_t device, int32_t timed, FtEvent** out, char* why, size_t n) {
  *out = nullptr;
  if (const FtStatus status = Choose(device, why, n); status != FT_OK) return status;
  cudaEvent_t event = nullptr;
  const unsigned flags = timed != 0 ? cudaEventDefault : cudaEventDisableTiming;
  const FtStatus status =
      Told(cudaEventCreateWithFlags(&event, flags), "make an event", device, why, n);
  if (status != FT_OK) return status;
  auto* const made = new (std::nothrow) DeviceEvent{event, device};
  if (made == nullptr) {
    static_cast<void>(cudaEventDestroy(event));
    std::snprintf(why, n, "cuda: no host memory for an event");
    return FT_OUT_OF_MEMORY;
  }
  *out = reinterpret_cast<FtEvent*>(made);
  return FT_OK;
}

void EventDestroy(FtEvent* event) {
  static_cast<void>(cudaEventDestroy(EventOf(event).event));
  delete &EventOf(event);
}

FtStatus EventRecord(FtQueue* queue, FtEvent* event) {
  if (const FtStatus status = UseDevice(queue); status != FT_OK) return status;
  return Told(queue,
              cudaEventRecord(EventOf(event).event, static_cast<cudaStream_t>(StreamOf(queue))),
              "record an event");
}

// Waits on the device: the host continues at once.
FtStatus EventWait(FtQueue* queue, FtEvent* event) {
  if (const FtStatus status = UseDevice(queue); status != FT_OK) return status;
  if (const FtStatus status = AllowReading(queue, EventOf(event).device); status != FT_OK) {
    return status;
  }
  return Told(
      queue,
      cudaStreamWaitEvent(static_cast<cudaStream_t>(StreamOf(queue)), EventOf(event).event, 0),
      "wait for an event");
}

// "Not ready" is an answer, not an error, so CUDA's error state is cleared.
FtStatus EventQuery(FtEvent* event, int32_t* done, char* why, size_t n) {
  const cudaError_t error = cudaEventQuery(EventOf(event).event);
  *done = error == cudaSuccess ? 1 : 0;
  if (error == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());
    return FT_OK;
  }
  if (error == cudaSuccess) return FT_OK;
  std::snprintf(why, n, "cuda: %s (%s)", cudaGetErrorString(error), cudaGetErrorName(error));
  return FT_FAILED;
}

FtStatus EventElapsed(FtEvent* from, FtEvent* to, int64_t* ns, char* why, size_t n) {
  float ms = 0.0F;
  const cudaError_t error = cudaEventElapsedTime(&ms, EventOf(from).event, EventOf(to).event);
  *ns = static_cast<int64_t>(std::llround(static_cast<double>(ms) * 1e6));
  if (error == cudaSuccess) return FT_OK;
  static_cast<void>(cudaGetLastError());
  std::snprintf(why, n, "cuda: time of an event: %s (%s)", cudaGetErrorString(error),
                cudaGetErrorName(error));
  return FT_FAILED;
}

// Pinned memory is portable: queues of all devices can copy from it without a staging buffer.
FtStatus HostAllocate(int32_t device, int64_t bytes, void** out, char* why, size_t n) {
  *out = nullptr;
  if (const FtStatus status = Choose(device, why, n); status != FT_OK) return status;
  const auto size = static_cast<std::size_t>(bytes > 0 ? bytes : 256);
  const cudaError_t error = cudaHostAlloc(out, size, cudaHostAllocPortable);
  if (error != cudaErrorMemoryAllocation) return Told(error, "pin memory", device, why, n);
  static_cast<void>(cudaGetLastError());
  *out = nullptr;
  std::snprintf(why, n, "cuda device %d: the system pins no %.2f GiB more; see ulimit -l",
                static_cast<int>(device), GiB(size));
  return FT_OUT_OF_MEMORY;
}

FtStatus HostRelease(int32_t device, void* pointer, char* why, size_t n) {
  if (const FtStatus status = Choose(device, why, n); status != FT_OK) return status;
  return Told(cudaFreeHost(pointer), "release pinned memory", device, why, n);
}

void* NativeQueue(FtQueue* queue) { return StreamOf(queue); }

FtStatus CheckBytes(FtQueue* queue, const char* name, const void* pointer, int64_t bytes) {
  if (bytes >= 0 && (bytes == 0 || pointer != nullptr)) return FT_OK;
  std::snprintf(QueueOf(queue).error, sizeof CudaQueue::error, "cuda %s: %lld bytes at %p", name,
                static_cast<long long>(bytes), pointer);
  return FT_FAILED;
}

// Copies between any two memories. Addresses are unified, so CUDA derives the direction from them.
FtStatus Copy(FtQueue* queue, void* to, const void* from, int64_t bytes) {
  FtStatus status = UseDevice(queue);
  if (status == FT_OK) status = CheckBytes(queue, "copy", to, bytes);
  if (status == FT_OK) status = CheckBytes(queue, "copy", from, bytes);
  if (status != FT_OK || bytes == 0) return status;
  return Told(queue,
              cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault,
                              static_cast<cudaStream_t>(StreamOf(queue))),
              "copy");
}

FtStatus Fill(FtQueue* queue, void* to, int32_t byte_value, int64_t bytes) {
  FtStatus status = UseDevice(queue);
  if (status == FT_OK) status = CheckBytes(queue, "fill", to, bytes);
  if (status != FT_OK || bytes == 0) return status;
  return Told(queue,
              cudaMemsetAsync(to, byte_value, static_cast<std::size_t>(bytes),
                              static_cast<cudaStream_t>(StreamOf(queue))),
              "fill");
}

}  // namespace

FtDeviceApi MakeCudaTable() {
  FtDeviceApi api{};
  api.version = FT_DEVICE_API_VERSION;
  api.asynchronous = 1;
  api.name = "cuda";
  api.device_count = &DeviceCount;
  api.memory = &Memory;
  api.allocate = &Allocate;
  api.release = &Release;
  api.queue_create = &QueueCreate;
  api.queue_reserve = &QueueReserve;
  api.queue_destroy = &QueueDestroy;
  api.queue_error = &QueueError;
  api.queue_synchronize = &QueueSynchronize;
  api.event_create = &EventCreate;
  api.event_destroy = &EventDestroy;
  api.event_record = &EventRecord;
  api.event_wait = &EventWait;
  api.copy = &Copy;
  api.fill = &Fill;
  api.event_query = &EventQuery;
  api.event_elapsed = &EventElapsed;
  api.host_allocate = &HostAllocate;
  api.host_release = &HostRelease;
  api.native_queue = &NativeQueue;
  api.gemm_library = &NameGemmLibrary;
  api.gemm_algorithms = &FindGemmAlgorithms;
  api.gemm_use = &UseGemmAlgorithm;
  api.tensor_use = &UseTensorKernels;
  api.attention_library = &NameAttentionLibrary;
  api.attention_forward_use = &UseAttentionForward;
  api.attention_backward_use = &UseAttentionBackward;
  SetCudaShares(api);
  SetCudaGraphs(api);
  SetCudaKernels(api);
  return api;
}

// With `stream`, the queue uses the caller's stream and takes ownership of it.
FtStatus MakeCudaQueue(int32_t device, void* stream, FtQueue** out, char* why, size_t n) {
  *out = nullptr;
  if (const FtStatus status = Choose(device, why, n); status != FT_OK) return status;
  auto* const queue = new (std::nothrow) DeviceQueue;
  if (queue == nullptr) {
    std::snprintf(why, n, "cuda: no host memory for a queue");
    return FT_OUT_OF_MEMORY;
  }
  queue->stream = stream;
  const FtStatus status = FillQueue(*queue, device, why, n);
  auto* const made = reinterpret_cast<FtQueue*>(static_cast<CudaQueue*>(queue));
  if (status == FT_OK) {
    *out = made;
  } else {
    QueueDestroy(made);
  }
  return status;
}

// Entries may be called from any thread, and each thread has its own current device.
FtStatus UseDevice(FtQueue* queue) {
  return Told(queue, cudaSetDevice(QueueOf(queue).device), "choose the device");
}

// Launches report errors of their arguments here; errors inside kernels appear at a later call.
FtStatus LaunchStatus(FtQueue* queue, const char* kernel) {
  return Told(queue, cudaGetLastError(), kernel);
}

// Above 48 KiB, CUDA gives a kernel dynamic shared memory only on request.
FtStatus AllowShared(FtQueue* queue, const char* name, const void* kernel, std::int64_t bytes) {
  const CudaQueue& q = QueueOf(queue);
  if (bytes > q.shared_bytes) {
    std::snprintf(QueueOf(queue).error, sizeof CudaQueue::error,
                  "cuda %s: needs %lld bytes of shared memory, a block of this device has %lld",
                  name, static_cast<long long>(bytes), static_cast<long long>(q.shared_bytes));
    return FT_UNSUPPORTED;
  }
  return Told(queue,
              cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(bytes)),
              name);
}

}  // namespace foretrain
