#include "kernels/cuda/device/check.h"

#include <cstdarg>
#include <cstdio>

namespace foretrain {
namespace {

// Max elements of a tensor, so that byte counts and products of two sizes fit an int64_t.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 60;

}  // namespace

CudaCheck::CudaCheck(FtQueue* queue, const char* kernel)
    : queue_(queue), kernel_(kernel), status_(UseDevice(queue)) {}

CudaCheck& CudaCheck::Float(const char* name, FtDtype dtype) {
  if (dtype != FT_F32 && dtype != FT_BF16 && dtype != FT_F16) {
    Refuse(FT_UNSUPPORTED, "%s %d: only f32 (0), bf16 (1) and f16 (2)", name,
           static_cast<int>(dtype));
  }
  return *this;
}

CudaCheck& CudaCheck::AtLeast(const char* name, std::int64_t value, std::int64_t least) {
  if (value < least && least == 0) {
    Refuse(FT_FAILED, "%s is %lld: a size cannot be negative", name, static_cast<long long>(value));
  } else if (value < least) {
    Refuse(FT_FAILED, "%s is %lld: must be at least %lld", name, static_cast<long long>(value),
           static_cast<long long>(least));
  }
  return *this;
}

CudaCheck& CudaCheck::AtMost(const char* name, std::int64_t value, std::int64_t most) {
  if (value > most) {
    Refuse(FT_UNSUPPORTED, "%s %lld: this device takes up to %lld", name,
           static_cast<long long>(value), static_cast<long long>(most));
  }
  return *this;
}

// Divides instead of multiplying, so that hostile sizes cannot overflow.
CudaCheck& CudaCheck::Tensor(const char* name, const void* pointer, std::int64_t rows,
                             std::int64_t cols) {
  if (!ok()) {
    return *this;
  }
  if (cols > 0 && rows > kMaxElements / cols) {
    Refuse(FT_FAILED, "%s: %lld * %lld elements are more than this machine can address", name,
           static_cast<long long>(rows), static_cast<long long>(cols));
  } else if (rows * cols > 0 && pointer == nullptr) {
    Refuse(FT_FAILED, "%s is null", name);
  }
  return *this;
}

std::byte* CudaCheck::Workspace(std::int64_t bytes) {
  if (bytes <= kWorkspaceBytes) return QueueOf(queue_).workspace;
  Refuse(FT_UNSUPPORTED, "needs %lld bytes of workspace, a queue has %lld",
         static_cast<long long>(bytes), static_cast<long long>(kWorkspaceBytes));
  return nullptr;
}

// Only the first refusal is kept: later checks often fail as its consequence.
CudaCheck& CudaCheck::Refuse(FtStatus status, const char* format, ...) {
  if (ok()) {
    status_ = status;
    char(&error)[sizeof CudaQueue::error] = QueueOf(queue_).error;
    const int begin = std::snprintf(error, sizeof error, "cuda %s: ", kernel_);
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(error + begin, sizeof error - static_cast<std::size_t>(begin), format,
                   arguments);
    va_end(arguments);
  }
  return *this;
}

}  // namespace foretrain
