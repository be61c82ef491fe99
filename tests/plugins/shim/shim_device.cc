#include "tests/plugins/shim/shim_device.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "kernels/cuda/device/entries.h"
#include "kernels/cuda/device/queue.h"
#include "kernels/cuda/library/library_attention.h"
#include "kernels/cuda/library/library_gemm.h"
#include "tests/plugins/shim/host_shim.h"

namespace foretrain {
namespace {

constexpr std::size_t kAlignment = 256;

FtStatus DeviceCount(int32_t* count, char* /*why*/, size_t /*n*/) {
  *count = 1;
  return FT_OK;
}

FtStatus Memory(int32_t /*device*/, FtMemory* out, char* /*why*/, size_t /*n*/) {
  *out = {std::int64_t{1} << 32, std::int64_t{1} << 32};
  return FT_OK;
}

}  // namespace

FtStatus Allocate(int32_t /*device*/, int64_t bytes, void** out, char* why, size_t n) {
  const std::size_t size = bytes > 0 ? static_cast<std::size_t>(bytes) : kAlignment;
  if (bytes >= 0 && posix_memalign(out, kAlignment, size) == 0) return FT_OK;
  *out = nullptr;
  std::snprintf(why, n, "shim: no %lld bytes of memory", static_cast<long long>(bytes));
  return FT_OUT_OF_MEMORY;
}

namespace {

FtStatus Release(int32_t /*device*/, void* pointer, char* /*why*/, size_t /*n*/) {
  std::free(pointer);
  return FT_OK;
}

// The shim reports compute capability 9.0 and its shared memory, so that tests reach the same
// kernels as on such a GPU.
FtStatus QueueCreate(int32_t /*device*/, FtQueue** out, char* /*why*/, size_t /*n*/) {
  auto* const queue = new CudaQueue;
  queue->shared_bytes = 227 * 1024;  // as on compute capability 9.0
  queue->capability = 90;
  queue->turned_bytes = kTurnedBytes;
  *out = reinterpret_cast<FtQueue*>(queue);
  return FT_OK;
}

void QueueDestroy(FtQueue* queue) {
  DestroyAttentionLibrary(QueueOf(queue).attention);
  std::free(QueueOf(queue).workspace);
  delete &QueueOf(queue);
}

const char* QueueError(const FtQueue* queue) { return QueueOf(queue).error; }
FtStatus QueueSynchronize(FtQueue* /*queue*/) { return FT_OK; }

FtStatus EventCreate(int32_t /*device*/, int32_t /*timed*/, FtEvent** out, char* /*why*/,
                     size_t /*n*/) {
  static char event;  // work is done when an entry returns, so an event carries no state
  *out = reinterpret_cast<FtEvent*>(&event);
  return FT_OK;
}
void EventDestroy(FtEvent* /*event*/) {}
FtStatus EventRecord(FtQueue* /*queue*/, FtEvent* /*event*/) { return FT_OK; }
FtStatus EventWait(FtQueue* /*queue*/, FtEvent* /*event*/) { return FT_OK; }

FtStatus Copy(FtQueue* /*queue*/, void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memmove(to, from, static_cast<std::size_t>(bytes));
  return FT_OK;
}
FtStatus Fill(FtQueue* /*queue*/, void* to, int32_t byte_value, int64_t bytes) {
  if (bytes > 0) std::memset(to, byte_value, static_cast<std::size_t>(bytes));
  return FT_OK;
}

// Kernels run to completion when they are launched, so queues need no threads and events no state.
FtDeviceApi MakeTable() {
  FtDeviceApi api{};
  api.version = FT_DEVICE_API_VERSION;
  api.asynchronous = 0;
  api.name = "cuda";
  api.device_count = &DeviceCount;
  api.memory = &Memory;
  api.allocate = &Allocate;
  api.release = &Release;
  api.queue_create = &QueueCreate;
  api.queue_destroy = &QueueDestroy;
  api.queue_error = &QueueError;
  api.queue_synchronize = &QueueSynchronize;
  api.event_create = &EventCreate;
  api.event_destroy = &EventDestroy;
  api.event_record = &EventRecord;
  api.event_wait = &EventWait;
  api.copy = &Copy;
  api.fill = &Fill;
  SetCudaKernels(api);
  return api;
}

}  // namespace

FtStatus UseDevice(FtQueue* /*queue*/) { return FT_OK; }

// A thread that leaves before a barrier would be an error on a GPU; the shim counts such threads.
FtStatus LaunchStatus(FtQueue* queue, const char* kernel) {
  if (shim::failures == 0) return FT_OK;
  std::snprintf(QueueOf(queue).error, sizeof CudaQueue::error,
                "cuda %s: some threads left before a barrier", kernel);
  return FT_FAILED;
}

FtStatus AllowShared(FtQueue* queue, const char* name, const void* /*kernel*/, std::int64_t bytes) {
  if (bytes <= QueueOf(queue).shared_bytes) return FT_OK;
  std::snprintf(QueueOf(queue).error, sizeof CudaQueue::error,
                "cuda %s: needs %lld bytes of shared memory, a block has %lld", name,
                static_cast<long long>(bytes), static_cast<long long>(QueueOf(queue).shared_bytes));
  return FT_UNSUPPORTED;
}

#if !FORETRAIN_HAVE_CUBLASLT
FtStatus LibraryGemm(FtQueue* /*queue*/, const FtGemm& /*g*/, const GemmWorkspace& /*workspace*/) {
  return FT_UNSUPPORTED;
}
bool LibraryHasBlockScales() { return false; }
#endif

const FtDeviceApi& ShimDeviceApi() {
  static const FtDeviceApi api = MakeTable();
  return api;
}

}  // namespace foretrain
