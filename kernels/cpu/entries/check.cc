#include "kernels/cpu/entries/check.h"

#include <cstdarg>
#include <cstddef>
#include <cstdio>

#include "kernels/cpu/scratch.h"

namespace foretrain {
namespace {

// Max elements of a tensor, so that byte counts and products of two sizes fit an int64_t.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 60;

}  // namespace

Check::Check(FtQueue* queue, const char* kernel, FtDtype dtype) : queue_(queue), kernel_(kernel) {
  if (dtype != FT_F32) {
    Refuse(FT_UNSUPPORTED, "dtype %d: this device computes in fp32 (dtype 0)",
           static_cast<int>(dtype));
  }
}

Check& Check::Size(const char* name, std::int64_t value) {
  if (value < 0) {
    Refuse(FT_FAILED, "%s is %lld: a size cannot be negative", name, static_cast<long long>(value));
  }
  return *this;
}

Check& Check::AtLeast(const char* name, std::int64_t value, std::int64_t least) {
  if (value < least) {
    Refuse(FT_FAILED, "%s is %lld: must be at least %lld", name, static_cast<long long>(value),
           static_cast<long long>(least));
  }
  return *this;
}

// Kernels size their scratch memory by kMaxHeadDim.
Check& Check::HeadDim(std::int64_t value) {
  AtLeast("head_dim", value, 1);
  if (value > kMaxHeadDim) {
    Refuse(FT_UNSUPPORTED, "head_dim %lld: this device takes up to %lld",
           static_cast<long long>(value), static_cast<long long>(kMaxHeadDim));
  }
  return *this;
}

// Divides instead of multiplying, so that hostile sizes cannot overflow. After an earlier refusal
// sizes may be negative, so nothing is tested.
Check& Check::Tensor(const char* name, const void* pointer, std::int64_t rows, std::int64_t cols) {
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

// One pass over the ids for each call: far cheaper than the rows that they select.
Check& Check::Ids(const std::int32_t* ids, std::int64_t rows, std::int64_t vocab, int least) {
  Tensor("ids", ids, rows);
  for (std::int64_t row = 0; ok() && row < rows; ++row) {
    if (ids[row] < least || ids[row] >= vocab) {
      Refuse(FT_FAILED, "row %lld has id %d, outside the vocabulary of %lld",
             static_cast<long long>(row), ids[row], static_cast<long long>(vocab));
    }
  }
  return *this;
}

// Only the first refusal is kept: later checks often fail as its consequence.
Check& Check::Refuse(FtStatus status, const char* format, ...) {
  if (ok()) {
    status_ = status;
    const int begin = std::snprintf(queue_->error, sizeof queue_->error, "cpu %s: ", kernel_);
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(queue_->error + begin, sizeof queue_->error - static_cast<std::size_t>(begin),
                   format, arguments);
    va_end(arguments);
  }
  return *this;
}

}  // namespace foretrain
