#include "kernels/cuda/device/check.h"

namespace foretrain {

CudaCheck::CudaCheck(FtQueue* queue, FtKernel kernel)
    : ArgumentReader({"cuda", "only f32 (0), bf16 (1) and f16 (2)", QueueOf(queue).error,
                      sizeof CudaQueue::error},
                     kernel),
      queue_(queue) {
  status_ = UseDevice(queue);
}

std::byte* CudaCheck::Workspace(std::int64_t bytes) {
  if (bytes <= kWorkspaceBytes) return QueueOf(queue_).workspace;
  Refuse(FT_UNSUPPORTED, "needs %lld bytes of workspace, a queue has %lld",
         static_cast<long long>(bytes), static_cast<long long>(kWorkspaceBytes));
  return nullptr;
}

}  // namespace foretrain
