#include "kernels/cpu/wide_copies.h"

#include <cstdio>
#include <cstdlib>

#include "base/numeric/number_formats.h"
#include "kernels/formats.h"

namespace foretrain {
namespace {

// True for sizes with nothing to copy. Wrong sizes also count as empty: the entry itself refuses
// them.
bool IsEmpty(const Extent& extent) {
  return extent.rows <= 0 || extent.cols <= 0 || extent.stride < extent.cols;
}

}  // namespace

// The dtype is tested outside the loops, so that each loop vectorizes.
void Widen(FtDtype dtype, const void* from, float* to, std::int64_t elements) {
  const auto* const codes = static_cast<const std::uint16_t*>(from);
  if (dtype == FT_BF16) {
    for (std::int64_t i = 0; i < elements; ++i) to[i] = FloatOfBf16(codes[i]);
  } else {
    for (std::int64_t i = 0; i < elements; ++i) to[i] = FloatOfFp16(codes[i]);
  }
}

// Rounds to nearest even, as the other devices do.
void Narrow(FtDtype dtype, const float* from, void* to, std::int64_t elements) {
  auto* const codes = static_cast<std::uint16_t*>(to);
  if (dtype == FT_BF16) {
    for (std::int64_t i = 0; i < elements; ++i) codes[i] = Bf16OfFloat(from[i]);
  } else {
    for (std::int64_t i = 0; i < elements; ++i) codes[i] = Fp16OfFloat(from[i]);
  }
}

// Hands out the queue's buffers in call order, so that a repeated call reuses the same memory. A
// buffer grows but never shrinks.
float* WideCopies::Room(std::int64_t floats) {
  if (used_ == queue_->wide.size()) queue_->wide.emplace_back();
  WideBuffer& buffer = queue_->wide[used_++];
  if (buffer.floats < floats) {
    constexpr std::size_t kLine = 64;
    const std::size_t bytes =
        (static_cast<std::size_t>(floats) * sizeof(float) + kLine - 1) / kLine * kLine;
    buffer.floats = 0;
    buffer.at.reset(static_cast<float*>(std::aligned_alloc(kLine, bytes)));
    if (buffer.at == nullptr) {
      std::snprintf(queue_->error, sizeof queue_->error,
                    "cpu: no memory for an fp32 copy of %lld numbers",
                    static_cast<long long>(floats));
      status_ = FT_OUT_OF_MEMORY;
      return nullptr;
    }
    buffer.floats = floats;
  }
  return buffer.at.get();
}

// Keeps the tensor's stride, so that the entry's arguments stay valid. A product over the limit
// asks for kMost floats, which fails like any other allocation.
float* WideCopies::CopyOf(const void* tensor, FtDtype dtype, const Extent& extent, bool reads) {
  constexpr std::int64_t kMost = std::int64_t{1} << 56;
  const bool fits = extent.rows <= kMost / extent.stride;
  float* const copy = Room(fits ? extent.rows * extent.stride : kMost);
  if (copy == nullptr || !reads) return copy;
  const auto* const codes = static_cast<const std::uint16_t*>(tensor);
  if (extent.cols == extent.stride) {
    Widen(dtype, codes, copy, extent.rows * extent.cols);
    return copy;
  }
  for (std::int64_t row = 0; row < extent.rows; ++row) {
    Widen(dtype, codes + row * extent.stride, copy + row * extent.stride, extent.cols);
  }
  return copy;
}

// fp32 tensors are used as they are; only short ones cost a copy.
const void* WideCopies::In(const void* tensor, FtDtype dtype, const Extent& extent) {
  if (tensor == nullptr || !IsShort(dtype) || IsEmpty(extent)) return tensor;
  return CopyOf(tensor, dtype, extent, /*reads=*/true);
}

// Dequantizes value by value with the scale of its row, column or tile.
const void* WideCopies::Codes(const void* tensor, FtDtype dtype, const Extent& extent,
                              FtScaling scaling, const float* scales) {
  if (tensor == nullptr || IsEmpty(extent)) return tensor;
  float* const copy = CopyOf(tensor, dtype, extent, /*reads=*/false);
  if (copy == nullptr) return nullptr;
  const auto* const codes = static_cast<const std::uint8_t*>(tensor);
  for (std::int64_t row = 0; row < extent.rows; ++row) {
    for (std::int64_t col = 0; col < extent.cols; ++col) {
      const std::int64_t at = row * extent.stride + col;
      const float scale =
          scales != nullptr ? scales[ScalePlace(scaling, extent.cols, row, col)] : 1.0F;
      copy[at] = scale * (dtype == FT_FP8 ? FloatOfFp8(codes[at]) : FloatOfE5m2(codes[at]));
    }
  }
  return copy;
}

// `reads` is false for an output that is overwritten: its old values are not converted.
void* WideCopies::Out(void* tensor, FtDtype dtype, const Extent& extent, bool reads) {
  if (tensor == nullptr || !IsShort(dtype) || IsEmpty(extent)) return tensor;
  float* const copy = CopyOf(tensor, dtype, extent, reads);
  if (copy != nullptr) written_[written_count_++] = {tensor, copy, dtype, extent};
  return copy;
}

// Only the `cols` values of each row are written: values between rows belong to other tensors.
void WideCopies::Store() const {
  for (std::size_t i = 0; i < written_count_; ++i) {
    const auto& [tensor, copy, dtype, extent] = written_[i];
    auto* const codes = static_cast<std::uint16_t*>(tensor);
    for (std::int64_t row = 0; row < extent.rows; ++row) {
      Narrow(dtype, copy + row * extent.stride, codes + row * extent.stride, extent.cols);
    }
  }
}

}  // namespace foretrain
