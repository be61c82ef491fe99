// fp32 copies of a call's 16-bit tensors and 8-bit codes. Entries compute in fp32 on the copies,
// then round their outputs to nearest even. A call on fp32 tensors copies nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/arguments/reader.h"
#include "kernels/cpu/cpu_queue.h"

namespace foretrain {

// Converts values of a 16-bit dtype to fp32 and back.
void Widen(FtDtype dtype, const void* from, float* to, std::int64_t elements);
void Narrow(FtDtype dtype, const float* from, void* to, std::int64_t elements);

// Replaces the tensors of arguments that have been checked by copies, and after UseFp32 their
// dtypes by FT_F32. The memory is the queue's; each buffer grows to the longest tensor that used
// it. FT_OUT_OF_MEMORY if a copy could not be allocated.
class WideCopies final : public ArgumentReader {
 public:
  WideCopies(FtQueue* queue, FtKernel kernel);

  // Slices that share rows get one copy, because storing one would overwrite the others.
  void Slices(std::initializer_list<Tensor> slices) override;
  void UseFp32();

  // Rounds all outputs into their tensors.
  void Store() const;

 private:
  struct Written {
    void* tensor = nullptr;
    const float* copy = nullptr;
    FtDtype dtype = FT_F32;
    Extent extent;
  };
  void Take(FtDtype& dtype) override { dtypes_[dtype_count_++] = &dtype; }
  void Take(const Tensor& tensor) override;
  float* Room(std::int64_t floats);
  float* CopyOf(const Tensor& tensor);

  FtQueue* queue_;
  std::size_t used_ = 0;
  std::array<FtDtype*, 4> dtypes_{};
  std::size_t dtype_count_ = 0;
  std::array<Written, 4> written_{};
  std::size_t written_count_ = 0;
};

}  // namespace foretrain
