#include "kernels/cpu/cpu_device.h"

#include <cstdio>
#include <cstring>
#include <new>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/cpu_memory.h"
#include "kernels/cpu/cpu_queue.h"
#include "kernels/cpu/scratch.h"

// Work is done when an entry returns, so an event carries no state.
struct FtEvent {};

namespace foretrain {

// Null if there is no memory. Tests choose kernels and GEMM; QueueCreate picks the fastest.
FtQueue* MakeCpuQueue(const VectorKernels& kernels, GemmBackend gemm) {
  std::unique_ptr<FtQueue> queue(new (std::nothrow) FtQueue);
  if (queue == nullptr) {
    return nullptr;
  }
  // Page-aligned, so that the blocks of every instruction set start on a vector boundary.
  void* scratch = nullptr;
  if (posix_memalign(&scratch, 4096, kScratchFloats * sizeof(float)) != 0) {
    return nullptr;
  }
  queue->scratch.reset(static_cast<float*>(scratch));
  queue->kernels = &kernels;
  queue->gemm = gemm;
  return queue.release();
}

namespace {

FtStatus DeviceCount(int32_t* count, char* /*why*/, size_t /*n*/) {
  *count = 1;
  return FT_OK;
}

// The error text goes to `why`, because there is no queue yet to hold it.
FtStatus QueueCreate(int32_t device, FtQueue** out, char* why, size_t n) {
  *out = nullptr;
  if (const FtStatus status = CheckCpuDevice(device, why, n); status != FT_OK) {
    return status;
  }
  // The fastest usable instruction set comes first in the list; oneDNN is preferred to the built-in
  // GEMM.
  const GemmBackend gemm =
      HasGemmBackend(GemmBackend::kOneDnn) ? GemmBackend::kOneDnn : GemmBackend::kBuiltIn;
  *out = MakeCpuQueue(*FindUsableVectorKernels().tables[0], gemm);
  if (*out == nullptr) {
    std::snprintf(why, n, "cpu: no %.1f MiB of scratch memory for a queue",
                  static_cast<double>(kScratchFloats * sizeof(float)) / (1 << 20));
    return FT_OUT_OF_MEMORY;
  }
  return FT_OK;
}

// Kernels have finished when an entry returns, so there is nothing to wait for.
void QueueDestroy(FtQueue* queue) { delete queue; }

const char* QueueError(const FtQueue* queue) { return queue->error; }

// Nothing to wait for: every entry has done its work when it returns.
FtStatus QueueSynchronize(FtQueue* /*queue*/) { return FT_OK; }

FtStatus EventCreate(int32_t device, int32_t /*timed*/, FtEvent** out, char* why, size_t n) {
  *out = nullptr;
  if (const FtStatus status = CheckCpuDevice(device, why, n); status != FT_OK) {
    return status;
  }
  *out = new (std::nothrow) FtEvent;
  if (*out == nullptr) {
    std::snprintf(why, n, "cpu: no memory for an event");
    return FT_OUT_OF_MEMORY;
  }
  return FT_OK;
}

void EventDestroy(FtEvent* event) { delete event; }

FtStatus EventRecord(FtQueue* /*queue*/, FtEvent* /*event*/) { return FT_OK; }

FtStatus EventWait(FtQueue* /*queue*/, FtEvent* /*event*/) { return FT_OK; }

// Refuses a negative size, and a null pointer unless the size is 0.
FtStatus CheckBytes(FtQueue* queue, const char* name, const void* pointer, int64_t bytes) {
  if (bytes < 0 || (bytes > 0 && pointer == nullptr)) {
    std::snprintf(queue->error, sizeof queue->error, "cpu %s: %lld bytes at %p", name,
                  static_cast<long long>(bytes), pointer);
    return FT_FAILED;
  }
  return FT_OK;
}

// memmove, because source and target may overlap.
FtStatus Copy(FtQueue* queue, void* to, const void* from, int64_t bytes) {
  for (const void* pointer : {static_cast<const void*>(to), from}) {
    if (const FtStatus status = CheckBytes(queue, "copy", pointer, bytes); status != FT_OK) {
      return status;
    }
  }
  if (bytes > 0) {
    std::memmove(to, from, static_cast<std::size_t>(bytes));
  }
  return FT_OK;
}

FtStatus Fill(FtQueue* queue, void* to, int32_t byte_value, int64_t bytes) {
  if (const FtStatus status = CheckBytes(queue, "fill", to, bytes); status != FT_OK) {
    return status;
  }
  if (bytes > 0) {
    std::memset(to, byte_value, static_cast<std::size_t>(bytes));
  }
  return FT_OK;
}

// Fills the table that the runtime calls. `asynchronous` is 0: callers may reuse a buffer as soon
// as an entry returns.
FtDeviceApi MakeTable() {
  FtDeviceApi api{};
  api.version = FT_DEVICE_API_VERSION;
  api.asynchronous = 0;
  api.name = "cpu";
  api.device_count = &DeviceCount;
  api.memory = &CpuMemory;
  api.allocate = &CpuAllocate;
  api.release = &CpuRelease;
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
  SetCpuKernels(api);
  return api;
}

}  // namespace

const FtDeviceApi& CpuDeviceApi() {
  static const FtDeviceApi api = MakeTable();
  return api;
}

}  // namespace foretrain
