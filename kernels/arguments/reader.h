// Reads the arguments of a kernel entry by their description (describe.h). The reader of this file
// checks them and words the refusal; kernels/cpu/wide_copies.h has one that copies 16-bit tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "base/device_api.h"

namespace foretrain {

// Name of the entry, such as "norm_forward".
const char* NameOf(FtKernel kernel);

// Extent of a tensor: rows of `cols` values, `stride` values apart.
struct Extent {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;
};

enum class Access { kRead, kWrite, kReadWrite };  // kWrite: overwrites every element

// One tensor of a call. kernels/arguments/tensors.h makes them.
struct Tensor {
  const char* name;
  const void* at;
  const void** member;  // of the arguments; NULL: a tensor of a C type
  FtDtype dtype;
  Extent extent;
  Access access;
  bool required;  // must not be null, unless it is empty
  FtScaling scaling = FT_SCALE_TENSOR;
  const float** scales = nullptr;  // member with the scales of 8-bit codes
};

// Keeps the first error in a call's arguments, as text in `error`.
class ArgumentReader {
 public:
  // All texts outlive the reader.
  //   device   first word of every error
  //   formats  end of the error about a dtype that Float refuses
  struct Device {
    const char* device;
    const char* formats;
    char* error;
    std::size_t error_bytes;
    bool takes_short = true;  // accepts bf16 and fp16 besides fp32
  };
  ArgumentReader(const Device& device, FtKernel kernel) : device_(device), kernel_(kernel) {}
  virtual ~ArgumentReader() = default;
  ArgumentReader(const ArgumentReader&) = delete;
  ArgumentReader& operator=(const ArgumentReader&) = delete;

  // Refuses a tensor's dtype other than fp32 and the device's 16-bit formats. FloatOrCode also
  // accepts 8-bit codes.
  ArgumentReader& Float(const char* name, FtDtype& dtype);
  ArgumentReader& FloatOrCode(const char* name, FtDtype& dtype);

  // Refuses a negative `value`, one below `min`, or one above `max`.
  ArgumentReader& Size(const char* name, std::int64_t value) { return AtLeast(name, value, 0); }
  ArgumentReader& AtLeast(const char* name, std::int64_t value, std::int64_t min);
  ArgumentReader& AtMost(const char* name, std::int64_t value, std::int64_t max);
  ArgumentReader& HeadDim(const char* name, std::int64_t value);
  // Refuses a value outside [0, 1).
  ArgumentReader& Probability(float value);

  // Refuses null tensors. Extents may come from sizes that were refused: they are then ignored.
  ArgumentReader& Tensors(std::initializer_list<Tensor> tensors);
  // The same for tensors that may be slices of the same rows, such as packed q, k and v.
  virtual void Slices(std::initializer_list<Tensor> slices) { Tensors(slices); }

  [[gnu::format(printf, 3, 4)]] ArgumentReader& Refuse(FtStatus status, const char* format, ...);

  FtKernel kernel() const { return kernel_; }
  bool ok() const { return status_ == FT_OK; }
  FtStatus status() const { return status_; }

 protected:
  virtual void Take(FtDtype& /*dtype*/) {}
  virtual void Take(const Tensor& tensor);
  FtStatus status_ = FT_OK;

 private:
  Device device_;
  FtKernel kernel_;
};

}  // namespace foretrain
