// Operands of the kernels that are measured.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/cpu_queue.h"

namespace foretrain {

// Device memory of `floats` numbers between -1 and 1, none of them subnormal; made when first asked
// for.
class Buffer {
 public:
  explicit Buffer(std::int64_t floats, bool positive = false)
      : floats_(floats), positive_(positive) {}

  float* get() {
    if (data_ == nullptr) {
      Make(floats_);
    }
    return data_.get();
  }

 private:
  void Make(std::int64_t floats) {
    char why[256] = "";
    void* pointer = nullptr;
    if (CpuDeviceApi().allocate(0, floats * std::int64_t{sizeof(float)}, &pointer, why,
                                sizeof why) != FT_OK) {
      std::fprintf(stderr, "%s\n", why);
      std::exit(3);
    }
    data_.reset(static_cast<float*>(pointer));
    std::uint32_t state = 1;
    for (std::int64_t i = 0; i < floats; ++i) {
      state = state * 1664525U + 1013904223U;
      const float x = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31F;
      data_.get()[i] = positive_ ? x * x + 0.01F : x;
    }
  }

  std::int64_t floats_;
  bool positive_;
  std::unique_ptr<float, FreeDeleter> data_;
};

}  // namespace foretrain
