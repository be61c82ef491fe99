// Memory, copies and fills of the tests' CUDA runtime.
#include <cstdlib>
#include <cstring>

#include "tests/plugins/cuda/cudart/device.h"

namespace foretrain::cudart {
namespace {

constexpr int kUnwritten = 0xcd;
constexpr int kFreed = 0xdd;

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
  int gpu = -1;  // -1: host memory
};
Side SideOf(const void* at, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  const auto [range, allocation] = AllocationAt(address);
  if (range.end == 0) return {true, at != nullptr};
  return {false, range.Contains(address, bytes), allocation.gpu};
}

}  // namespace

extern "C" {

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
  const ObservedCall call(FakeCall::kCopy, handle);
  const bool is_peer = target.gpu >= 0 && source.gpu >= 0 && target.gpu != source.gpu;
  Work work{[=] { std::memmove(to, from, bytes); },
            {.kind = is_peer ? FakeWorkKind::kPeerCopy : FakeWorkKind::kCopy, .bytes = bytes}};
  if (source.pageable && stream != nullptr && !stream->capture) {
    const auto* const read = static_cast<const std::byte*>(from);
    auto staged = std::make_shared<std::vector<std::byte>>(read, read + bytes);
    work.run = [=] { std::memcpy(to, staged->data(), bytes); };
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
  const ObservedCall call(FakeCall::kFill, handle);
  return Give(handle, {[=] { std::memset(to, value, bytes); },
                       {.kind = FakeWorkKind::kFill, .bytes = bytes}});
}

}  // extern "C"

}  // namespace foretrain::cudart
