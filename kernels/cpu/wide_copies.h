// fp32 copies of the tensors of one call that are stored in 16 bits: entries compute in fp32 on
// copies, and what they write is rounded to nearest even. Leaves out which tensors a call has:
// entries/short_tensors.cc.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/device_api.h"
#include "kernels/cpu/cpu_queue.h"

namespace foretrain {

constexpr bool IsShort(FtDtype dtype) { return dtype == FT_BF16 || dtype == FT_F16; }
// Codes of 8 bits that scales belong to.
constexpr bool IsCode(FtDtype dtype) { return dtype == FT_FP8 || dtype == FT_E5M2; }

// Numbers of a 16-bit dtype to fp32 and back.
void Widen(FtDtype dtype, const void* from, float* to, std::int64_t elements);
void Narrow(FtDtype dtype, const float* from, void* to, std::int64_t elements);

// Rows of a tensor: `cols` numbers each, `stride` apart.
struct Extent {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;

  static Extent Dense(std::int64_t rows, std::int64_t cols) { return {rows, cols, cols}; }
  static Extent Vector(std::int64_t elements) { return {1, elements, elements}; }
};

// The memory is the queue's, and grows to the longest tensor that a call has had in each place.
class WideCopies {
 public:
  explicit WideCopies(FtQueue* queue) : queue_(queue) {}

  // A copy laid out as the tensor; the tensor itself where it is null or of another dtype than 16
  // bits.
  const void* In(const void* tensor, FtDtype dtype, const Extent& extent);
  // The numbers of codes, times their scales (null: 1); null where the tensor is.
  const void* Codes(const void* tensor, FtDtype dtype, const Extent& extent, FtScaling scaling,
                    const float* scales);
  // The same as In of one that the kernel writes. `reads`: it may also read it, or leave a part
  // alone.
  void* Out(void* tensor, FtDtype dtype, const Extent& extent, bool reads);
  // Rounds what was written to where it belongs.
  void Store() const;

  // FT_OUT_OF_MEMORY: there was no memory for a copy.
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
