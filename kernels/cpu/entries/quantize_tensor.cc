// CPU entry of casts to 8-bit codes with separate scales: one scale for the tensor, or one for each
// block of a row, of a column, or tile.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/numeric/number_formats.h"
#include "kernels/cpu/entries/entry.h"
#include "kernels/cpu/entries/families.h"
#include "kernels/formats.h"

namespace foretrain {
namespace {

// |x|, or infinity for NaN and infinity, so that the maximum of a block shows them.
float SizeOf(float x) {
  return std::isfinite(x) ? std::fabs(x) : std::numeric_limits<float>::infinity();
}

// A NaN would be lost in std::max, hence SizeOf.
float LargestOf(const float* x, std::int64_t elements) {
  float most = 0.0F;
  for (std::int64_t i = 0; i < elements; ++i) most = std::max(most, SizeOf(x[i]));
  return most;
}

float LargestCode(FtDtype format) { return format == FT_FP8 ? 448.0F : 57344.0F; }

// Computes all scales: first the maximum |x| per scale, then divided by the largest code.
void FindScales(const FtQuantizeTensor& g) {
  const auto* const x = static_cast<const float*>(g.x);
  const std::int64_t count = ScaleCount(g.scaling, g.rows, g.cols);
  std::fill_n(g.scale, count, 0.0F);
  for (std::int64_t row = 0; row < g.rows; ++row) {
    for (std::int64_t col = 0; col < g.cols; ++col) {
      float& most = g.scale[ScalePlace(g.scaling, g.cols, row, col)];
      most = std::max(most, SizeOf(x[row * g.cols + col]));
    }
  }
  for (std::int64_t i = 0; i < count; ++i) g.scale[i] /= LargestCode(g.format);
}

// Saturates at the largest code. NaN becomes code 0: its scale is infinite, so 0 * inf shows it.
std::uint8_t CodeOf(FtDtype format, float x) {
  if (std::isnan(x)) return 0;
  return format == FT_FP8 ? Fp8OfFloat(std::clamp(x, -448.0F, 448.0F))
                          : E5m2OfFloat(std::clamp(x, -57344.0F, 57344.0F));
}

// Two passes, scales then codes. With keep_scale the scale is given, for example a maximum over
// ranks; without outputs only the scales are computed.
void QuantizeTensor(const FtQuantizeTensor& g) {
  const auto* const x = static_cast<const float*>(g.x);
  if (g.absmax != nullptr) *g.absmax = LargestOf(x, g.rows * g.cols);
  if (g.keep_scale == 0) FindScales(g);
  auto* const out = static_cast<std::uint8_t*>(g.out);
  auto* const transposed = static_cast<std::uint8_t*>(g.transposed);
  if (out == nullptr && transposed == nullptr) return;
  for (std::int64_t row = 0; row < g.rows; ++row) {
    for (std::int64_t col = 0; col < g.cols; ++col) {
      const float scale = g.scale[ScalePlace(g.scaling, g.cols, row, col)];
      // A smaller scale has an inverse beyond fp32's range.
      const float inverse = scale > 1e-37F ? 1.0F / scale : 0.0F;
      const std::uint8_t code = CodeOf(g.format, x[row * g.cols + col] * inverse);
      if (out != nullptr) out[row * g.cols + col] = code;
      if (transposed != nullptr) transposed[col * g.rows + row] = code;
    }
  }
}

}  // namespace

void SetQuantizeTensorEntry(FtDeviceApi& api) {
  Set<&FtDeviceApi::quantize_tensor, &QuantizeTensor>(api);
}

}  // namespace foretrain
