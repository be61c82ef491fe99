// A queue of the CUDA device, as kernel entries see it: stream, workspace and error text.
// kernels/cuda/device/device.cc implements it on a GPU, tests/plugins/shim/shim_device.cc in tests.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/device_api.h"

namespace foretrain {

struct GemmLibrary;       // cuBLASLt; kernels/cuda/library/library_gemm.h
struct AttentionLibrary;  // cuDNN; kernels/cuda/library/library_attention.h

// Workspace for partial sums, attention statistics and libraries.
constexpr std::int64_t kWorkspaceBytes = std::int64_t{64} << 20;
constexpr std::int64_t kTurnedBytes = kWorkspaceBytes / 2;

// The object behind an FtQueue of this device.
struct CudaQueue {
  void* stream = nullptr;  // a cudaStream_t
  int device = 0;
  // Device memory, 256-byte aligned, free between entries; NULL until ReserveWorkspace.
  std::byte* workspace = nullptr;
  std::int64_t turned_bytes = 0;  // part of the workspace for transposed 8-bit operands
  std::int64_t shared_bytes = 0;  // maximum shared memory of a block
  std::int64_t attention_bytes = kWorkspaceBytes;  // part for library attention
  int capability = 0;                              // compute capability: 10 * major + minor
  int multiprocessors = 0;
  bool warpgroups[FT_KERNEL_COUNT] = {};  // entries that use kernels with wgmma where they can
  GemmLibrary* gemm = nullptr;            // NULL if kernels run on the host
  AttentionLibrary* attention = nullptr;  // NULL until first used
  char error[512] = {};
};
inline CudaQueue& QueueOf(FtQueue* queue) { return *reinterpret_cast<CudaQueue*>(queue); }
inline const CudaQueue& QueueOf(const FtQueue* queue) {
  return *reinterpret_cast<const CudaQueue*>(queue);
}
inline void* StreamOf(FtQueue* queue) { return QueueOf(queue).stream; }

// Makes the queue's device current for the calling thread. FT_FAILED with a sentence in the queue.
FtStatus UseDevice(FtQueue* queue);

// Device memory, as the table's entry `allocate`.
FtStatus Allocate(std::int32_t device, std::int64_t bytes, void** out, char* why, std::size_t n);

// Allocates the queue's workspace unless it has one. FT_OUT_OF_MEMORY with a sentence in the queue.
FtStatus ReserveWorkspace(FtQueue* queue);

// FT_OK if the launches since the last call were accepted; otherwise FT_FAILED with a sentence.
FtStatus LaunchStatus(FtQueue* queue, const char* kernel);

// Lets `kernel` use `bytes` of dynamic shared memory; FT_UNSUPPORTED if the device has less.
FtStatus AllowShared(FtQueue* queue, const char* name, const void* kernel, std::int64_t bytes);

}  // namespace foretrain
