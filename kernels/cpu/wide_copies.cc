#include "kernels/cpu/wide_copies.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/numeric/number_formats.h"
#include "kernels/formats.h"

namespace foretrain {
namespace {

bool IsEmpty(const Extent& extent) { return extent.rows <= 0 || extent.cols <= 0; }

// Smallest slice of the same rows that covers both.
Tensor Join(const Tensor& a, const Tensor& b) {
  const auto *const at_a = static_cast<const std::uint16_t*>(a.at),
                    *const at_b = static_cast<const std::uint16_t*>(b.at);
  Tensor joined = a;
  const auto* const first = std::min(at_a, at_b);
  joined.at = first;
  joined.extent.cols = std::max(at_a + a.extent.cols, at_b + b.extent.cols) - first;
  return joined;
}

// True if the slices are parts of the same rows: q, k and v (or their gradients) in one packed
// tensor.
bool ShareRows(const Tensor& a, const Tensor& b) {
  return a.extent.rows == b.extent.rows && a.extent.stride == b.extent.stride &&
         Join(a, b).extent.cols <= a.extent.stride;
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

WideCopies::WideCopies(FtQueue* queue, FtKernel kernel)
    : ArgumentReader({"cpu", "", queue->error, sizeof queue->error}, kernel), queue_(queue) {}

void WideCopies::UseFp32() {
  for (std::size_t i = 0; i < dtype_count_; ++i) *dtypes_[i] = FT_F32;
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
float* WideCopies::CopyOf(const Tensor& tensor) {
  constexpr std::int64_t kMost = std::int64_t{1} << 56;
  const auto& [rows, cols, stride] = tensor.extent;
  float* const copy = Room(rows <= kMost / stride ? rows * stride : kMost);
  if (copy == nullptr || IsCode(tensor.dtype)) return copy;
  if (tensor.access != Access::kRead) {
    written_[written_count_++] = {const_cast<void*>(tensor.at), copy, tensor.dtype, tensor.extent};
  }
  if (tensor.access == Access::kWrite) return copy;
  const auto* const codes = static_cast<const std::uint16_t*>(tensor.at);
  if (cols == stride) {
    Widen(tensor.dtype, codes, copy, rows * cols);
    return copy;
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    Widen(tensor.dtype, codes + row * stride, copy + row * stride, cols);
  }
  return copy;
}

// Dequantizes codes value by value with the scale of their row, column or tile.
void WideCopies::Take(const Tensor& tensor) {
  const bool codes = tensor.scales != nullptr && IsCode(tensor.dtype);
  if (tensor.member == nullptr || tensor.at == nullptr || IsEmpty(tensor.extent)) return;
  if (!codes && !IsShort(tensor.dtype)) return;
  float* const copy = CopyOf(tensor);
  *tensor.member = copy;
  if (copy == nullptr || !codes) return;
  const auto& [rows, cols, stride] = tensor.extent;
  const auto* const from = static_cast<const std::uint8_t*>(tensor.at);
  const float* const scales = *tensor.scales;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t col = 0; col < cols; ++col) {
      const std::int64_t at = row * stride + col;
      const float scale =
          scales != nullptr ? scales[ScalePlace(tensor.scaling, cols, row, col)] : 1.0F;
      copy[at] = scale * (tensor.dtype == FT_FP8 ? FloatOfFp8(from[at]) : FloatOfE5m2(from[at]));
    }
  }
  *tensor.scales = nullptr;
}

// Joins each slice with all later ones that share its rows.
void WideCopies::Slices(std::initializer_list<Tensor> slices) {
  std::array<bool, 3> done{};
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const Tensor& first = slices.begin()[i];
    if (done[i] || !ok() || first.at == nullptr || !IsShort(first.dtype) || IsEmpty(first.extent)) {
      continue;
    }
    Tensor joined = first;
    std::array<const Tensor*, 3> parts{};
    std::size_t count = 0;
    for (std::size_t j = i; j < slices.size(); ++j) {
      const Tensor& part = slices.begin()[j];
      if (part.at == nullptr || IsEmpty(part.extent) || !ShareRows(joined, part)) continue;
      joined = Join(joined, part);
      done[j] = true;
      parts[count++] = &part;
    }
    const float* const copy = CopyOf(joined);
    if (copy == nullptr) return;
    for (std::size_t k = 0; k < count; ++k) {
      *parts[k]->member = copy + (static_cast<const std::uint16_t*>(parts[k]->at) -
                                  static_cast<const std::uint16_t*>(joined.at));
    }
  }
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
