#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/number_formats.h"
#include "kernels/cpu/entries/check.h"
#include "kernels/cpu/entries/families.h"

namespace foretrain {
namespace {

// Of all numbers; NaN where one is.
float LargestOf(const float* x, std::int64_t elements) {
  float most = 0.0F;
  for (std::int64_t i = 0; i < elements; ++i) {
    const float size = std::fabs(x[i]);
    if (size > most || std::isnan(size)) most = size;
    if (std::isnan(most)) break;
  }
  return most;
}

std::uint8_t CodeOf(FtDtype format, float x) {
  if (std::isnan(x)) return 0;
  return format == FT_FP8 ? Fp8OfFloat(std::clamp(x, -448.0F, 448.0F))
                          : E5m2OfFloat(std::clamp(x, -57344.0F, 57344.0F));
}

FtStatus QuantizeTensor(FtQueue* queue, const FtQuantizeTensor* g) {
  Check check(queue, "quantize_tensor", g->dtype);
  check.Size("rows", g->rows).Size("cols", g->cols).Tensor("x", g->x, g->rows, g->cols);
  check.Tensor("scale", g->scale, 1);
  if (g->format != FT_FP8 && g->format != FT_E5M2) {
    check.Refuse(FT_UNSUPPORTED, "format %d: only fp8 (5) and e5m2 (9)",
                 static_cast<int>(g->format));
  }
  if (!check.ok()) return check.status();
  const auto* const x = static_cast<const float*>(g->x);
  const float most = LargestOf(x, g->rows * g->cols);
  if (g->absmax != nullptr) *g->absmax = most;
  if (g->keep_scale == 0) *g->scale = most / (g->format == FT_FP8 ? 448.0F : 57344.0F);
  // Below that its inverse is no number.
  const float inverse = *g->scale > 1e-37F ? 1.0F / *g->scale : 0.0F;
  auto* const out = static_cast<std::uint8_t*>(g->out);
  auto* const transposed = static_cast<std::uint8_t*>(g->transposed);
  for (std::int64_t row = 0; row < g->rows; ++row) {
    for (std::int64_t col = 0; col < g->cols; ++col) {
      const std::uint8_t code = CodeOf(g->format, x[row * g->cols + col] * inverse);
      if (out != nullptr) out[row * g->cols + col] = code;
      if (transposed != nullptr) transposed[col * g->rows + row] = code;
    }
  }
  return FT_OK;
}

}  // namespace

void SetQuantizeTensorEntry(FtDeviceApi& api) { api.quantize_tensor = &QuantizeTensor; }

}  // namespace foretrain
