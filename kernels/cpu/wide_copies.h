// fp32 copies of a call's 16-bit tensors. Entries compute in fp32 on the copies, then round their
// outputs to nearest even. entries/short_tensors.cc lists the tensors of each call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/device_api.h"
#include "kernels/cpu/cpu_queue.h"

namespace foretrain {

constexpr bool IsShort(FtDtype dtype) { return dtype == FT_BF16 || dtype == FT_F16; }
// True for 8-bit codes, which have scales.
constexpr bool IsCode(FtDtype dtype) { return dtype == FT_FP8 || dtype == FT_E5M2; }

// Converts values of a 16-bit dtype to fp32 and back.
void Widen(FtDtype dtype, const void* from, float* to, std::int64_t elements);
void Narrow(FtDtype dtype, const float* from, void* to, std::int64_t elements);

// Extent of a tensor: rows of `cols` values, `stride` values apart.
struct Extent {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;

  static Extent Dense(std::int64_t rows, std::int64_t cols) { return {rows, cols, cols}; }
  static Extent Vector(std::int64_t elements) { return {1, elements, elements}; }
};

// Copies for one call. The memory is the queue's; each buffer grows to the longest tensor that used
// it.
class WideCopies {
 public:
  explicit WideCopies(FtQueue* queue) : queue_(queue) {}

  // Copy with the layout of the tensor. Returns the tensor itself if it is null or not 16-bit.
  const void* In(const void* tensor, FtDtype dtype, const Extent& extent);
  // Values of 8-bit codes times their scales (null: 1); null if the tensor is null.
  const void* Codes(const void* tensor, FtDtype dtype, const Extent& extent, FtScaling scaling,
                    const float* scales);
  // Like In, for a tensor that the kernel writes. `reads`: the kernel also reads it or leaves a
  // part of it unwritten.
  void* Out(void* tensor, FtDtype dtype, const Extent& extent, bool reads);
  // Rounds all outputs into their tensors.
  void Store() const;

  // FT_OUT_OF_MEMORY if a copy could not be allocated.
  FtStatus status() const { return status_; }

 private:
  struct Written {
    void* tensor = nullptr;
    const float* copy = nullptr;
    FtDtype dtype = FT_F32;
    Extent extent;
  };
  float* Room(std::int64_t floats);
  float* CopyOf(const void* tensor, FtDtype dtype, const Extent& extent, bool reads);

  FtQueue* queue_;
  std::size_t used_ = 0;
  std::array<Written, 4> written_{};
  std::size_t written_count_ = 0;
  FtStatus status_ = FT_OK;
};

}  // namespace foretrain
