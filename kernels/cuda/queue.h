// A queue of the CUDA device, as kernel entries see it: where to launch, the memory that they may
// use meanwhile, and the text of what failed. Its layers are kernels/cuda/device.cc on a GPU and
// kernels/cuda/shim_device.cc in tests.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/device_api.h"

namespace foretrain {

struct GemmLibrary;       // cuBLASLt; kernels/cuda/library_gemm.h
struct AttentionLibrary;  // cuDNN; kernels/cuda/library_attention.h

// Partial sums, statistics of attention, and what libraries ask for.
constexpr std::int64_t kWorkspaceBytes = std::int64_t{64} << 20;
constexpr std::int64_t kTurnedBytes = kWorkspaceBytes / 2;

// What an FtQueue of this device is.
struct CudaQueue {
  void* stream = nullptr;  // a cudaStream_t
  int device = 0;
  std::byte* workspace = nullptr;  // of the device, 256-byte aligned, free between entries
  std::int64_t turned_bytes = 0;   // of the workspace: for operands of 8 bits that are turned
  std::int64_t shared_bytes = 0;   // most that a block may have
  std::int64_t attention_bytes = kWorkspaceBytes;  // and for attention by a library
  int capability = 0;                              // of the device: 10 * major + minor
  GemmLibrary* gemm = nullptr;                     // null where kernels run on the host
  AttentionLibrary* attention = nullptr;           // null until it is asked for
  char error[512] = {};
};
inline CudaQueue& QueueOf(FtQueue* queue) { return *reinterpret_cast<CudaQueue*>(queue); }
inline const CudaQueue& QueueOf(const FtQueue* queue) {
  return *reinterpret_cast<const CudaQueue*>(queue);
}
inline void* StreamOf(FtQueue* queue) { return QueueOf(queue).stream; }

// Makes the queue's device that of the calling thread. FT_FAILED with a sentence in the queue.
FtStatus UseDevice(FtQueue* queue);

// Whether the launches since the last call were accepted; else FT_FAILED with a sentence.
FtStatus LaunchStatus(FtQueue* queue, const char* kernel);

// Lets `kernel` use `bytes` of dynamic shared memory; FT_UNSUPPORTED where the device has less.
FtStatus AllowShared(FtQueue* queue, const char* name, const void* kernel, std::int64_t bytes);

}  // namespace foretrain
