#include "kernels/arguments/reader.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "kernels/formats.h"

namespace foretrain {
namespace {

// Max elements of a tensor, so that byte counts and products of two sizes fit an int64_t.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 60;
// Kernels size their scratch memory by it.
constexpr std::int64_t kMaxHeadDim = 512;

}  // namespace

const char* NameOf(FtKernel kernel) {
#define FT_NAME(NAME, entry, Arguments) #entry,
  static constexpr const char* kNames[] = {FT_KERNEL_ENTRIES(FT_NAME)};
#undef FT_NAME
  return kNames[kernel];
}

ArgumentReader& ArgumentReader::Float(const char* name, FtDtype& dtype) {
  if (dtype != FT_F32 && !(device_.takes_short && IsShort(dtype))) {
    Refuse(FT_UNSUPPORTED, "%s %d: %s", name, static_cast<int>(dtype), device_.formats);
  }
  Take(dtype);
  return *this;
}

ArgumentReader& ArgumentReader::FloatOrCode(const char* name, FtDtype& dtype) {
  if (!IsCode(dtype)) return Float(name, dtype);
  Take(dtype);
  return *this;
}

ArgumentReader& ArgumentReader::AtLeast(const char* name, std::int64_t value, std::int64_t min) {
  if (value < min && min == 0) {
    Refuse(FT_FAILED, "%s is %lld: a size cannot be negative", name, static_cast<long long>(value));
  } else if (value < min) {
    Refuse(FT_FAILED, "%s is %lld: must be at least %lld", name, static_cast<long long>(value),
           static_cast<long long>(min));
  }
  return *this;
}

ArgumentReader& ArgumentReader::AtMost(const char* name, std::int64_t value, std::int64_t max) {
  if (value > max) {
    Refuse(FT_UNSUPPORTED, "%s %lld: this device takes up to %lld", name,
           static_cast<long long>(value), static_cast<long long>(max));
  }
  return *this;
}

ArgumentReader& ArgumentReader::HeadDim(const char* name, std::int64_t value) {
  return AtLeast(name, value, 1).AtMost(name, value, kMaxHeadDim);
}

ArgumentReader& ArgumentReader::Probability(float value) {
  if (!(value >= 0.0F && value < 1.0F)) {
    Refuse(FT_FAILED, "probability %g: must lie in [0, 1)", static_cast<double>(value));
  }
  return *this;
}

ArgumentReader& ArgumentReader::Tensors(std::initializer_list<Tensor> tensors) {
  for (const Tensor& tensor : tensors) {
    if (ok()) Take(tensor);
  }
  return *this;
}

// Divides instead of multiplying, so that hostile sizes cannot overflow.
void ArgumentReader::Take(const Tensor& tensor) {
  const auto& [rows, cols, stride] = tensor.extent;
  const std::int64_t width = std::max(cols, stride);
  if (width > 0 && rows > kMaxElements / width) {
    Refuse(FT_FAILED, "%s: %lld * %lld elements are more than this machine can address",
           tensor.name, static_cast<long long>(rows), static_cast<long long>(width));
  } else if (tensor.required && tensor.at == nullptr && rows > 0 && cols > 0) {
    Refuse(FT_FAILED, "%s is null", tensor.name);
  }
}

// Only the first refusal is kept: later checks often fail as its consequence.
ArgumentReader& ArgumentReader::Refuse(FtStatus status, const char* format, ...) {
  if (!ok()) return *this;
  status_ = status;
  char* const error = device_.error;
  const int begin =
      std::snprintf(error, device_.error_bytes, "%s %s: ", device_.device, NameOf(kernel_));
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(error + begin, device_.error_bytes - static_cast<std::size_t>(begin), format,
                 arguments);
  va_end(arguments);
  return *this;
}

}  // namespace foretrain
