#include "kernels/cuda/device/check.h"

namespace foretrain {

CudaCheck::CudaCheck(FtQueue* queue, FtKernel kernel)
    : ArgumentReader({"cuda", "only f32 (0), bf16 (1) and f16 (2)", QueueOf(queue).error,
                      sizeof CudaQueue::error},
                     kernel),
      queue_(queue) {
  status_ = UseDevice(queue);
}

// The workspace belongs to the queue, so entries of one queue share it without synchronization.
FtStatus ReserveWorkspace(FtQueue* queue) {
  CudaQueue& q = QueueOf(queue);
  if (q.workspace != nullptr) return FT_OK;
  void* workspace = nullptr;
  const FtStatus status = Allocate(q.device, kWorkspaceBytes, &workspace, q.error, sizeof q.error);
  q.workspace = static_cast<std::byte*>(workspace);
  return status;
}

std::byte* CudaCheck::Workspace(std::int64_t bytes) {
  if (bytes <= kWorkspaceBytes) {
    if (status_ == FT_OK) status_ = ReserveWorkspace(queue_);
    return QueueOf(queue_).workspace;
  }
  Refuse(FT_UNSUPPORTED, "needs %lld bytes of workspace, a queue has %lld",
         static_cast<long long>(bytes), static_cast<long long>(kWorkspaceBytes));
  return nullptr;
}

}  // namespace foretrain
