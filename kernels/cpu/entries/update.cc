// CPU entries of optimizer updates, of the loss scale, and of casts.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/numeric/nf4.h"
#include "kernels/cpu/entries/entry.h"
#include "kernels/cpu/entries/families.h"
#include "kernels/formats.h"

namespace foretrain {
namespace {

// The update with the current dynamic loss scale.
template <class Update>
Update Scaled(const Update& g) {
  Update now = g;
  const float initial = g.loss_scale == 0.0F ? 1.0F : g.loss_scale;
  if (g.loss_scale_state != nullptr) {
    now.loss_scale = std::ldexp(initial, static_cast<int>(g.loss_scale_state[0]));
  }
  return now;
}

// Rounds the new parameters into the 16-bit weights for the next forward pass.
template <class Update>
void StoreWeights(const Update& g) {
  if (g.weights == nullptr) return;
  Narrow(g.weights_dtype, static_cast<const float*>(g.param), g.weights, g.elements);
}

void AdamW(Check& check, const FtAdamW& g) {
  check.queue()->kernels->adamw(Scaled(g));
  StoreWeights(g);
}

void Sgd(Check& check, const FtSgd& g) {
  check.queue()->kernels->sgd(Scaled(g));
  StoreWeights(g);
}

void Momentum(Check& check, const FtMomentum& g) {
  check.queue()->kernels->momentum(Scaled(g));
  StoreWeights(g);
}

void Lion(Check& check, const FtMomentum& g) {
  check.queue()->kernels->lion(Scaled(g));
  StoreWeights(g);
}

void FactorSums(Check& check, const FtFactorSums& g) { check.queue()->kernels->factor_sums(g); }

void FactorMoments(Check& check, const FtFactorMoments& g) {
  check.queue()->kernels->factor_moments(g);
}

void FactorSize(Check& check, const FtAdafactor& g) { check.queue()->kernels->factor_size(g); }

// Rows and columns of the weights are contiguous, as those of the parameters are.
void Adafactor(Check& check, const FtAdafactor& g) {
  check.queue()->kernels->adafactor(g);
  if (g.weights == nullptr) return;
  Narrow(g.weights_dtype, static_cast<const float*>(g.param), g.weights, g.rows * g.cols);
}

void Average(const FtAverage& g) {
  const auto* const param = static_cast<const float*>(g.param);
  for (std::int64_t i = 0; i < g.elements; ++i) {
    g.average[i] += (param[i] - g.average[i]) * g.rate;
  }
}

// The factor of x in FtCombine.
float FactorOf(const FtCombine& g) {
  if (g.squared_norm == nullptr) return 1.0F;
  const float norm = std::sqrt(g.squared_norm[0]);
  if (g.max_norm == 0.0F) return 1.0F / (norm + 1e-7F);
  return std::min(1.0F, g.max_norm / (norm + 1e-6F));
}

void Combine(const FtCombine& g) {
  const bool clips = g.squared_norm != nullptr && g.max_norm > 0.0F;
  if (clips && g.beta != 0.0F && !std::isfinite(g.squared_norm[0])) return;
  const auto* const x = static_cast<const float*>(g.x);
  const float alpha = g.alpha * FactorOf(g);
  if (g.beta == 0.0F) {
    for (std::int64_t i = 0; i < g.elements; ++i) g.out[i] = alpha * x[i];
    return;
  }
  for (std::int64_t i = 0; i < g.elements; ++i) g.out[i] = alpha * x[i] + g.beta * g.out[i];
}

// Dynamic loss scaling as in FtScaleLoss. The scale never drops below 1.
void ScaleLoss(const FtScaleLoss& g) {
  float& doublings = g.loss_scale[0];
  float& since = g.since[0];
  if (g.not_finite[0] != 0.0F) {
    const float half = std::ldexp(g.initial, static_cast<int>(doublings) - 1);
    if (half >= 1.0F) doublings -= 1.0F;
    since = 0.0F;
    return;
  }
  since += 1.0F;
  if (since < static_cast<float>(g.growth_interval)) return;
  doublings += 1.0F;
  since = 0.0F;
}

// A 16-bit format is a plain rounding. NF4 has its own layout (base/numeric/nf4.h) and always one
// piece. Other formats store codes and scales piece by piece.
void Quantize(Check& check, const FtQuantize& g) {
  const auto* const x = static_cast<const float*>(g.x);
  if (IsShort(g.format)) {
    Narrow(g.format, x, g.out, g.elements);
  } else if (g.format == FT_NF4) {
    QuantizeNf4(x, g.elements, static_cast<std::uint8_t*>(g.out));
  } else {
    check.queue()->kernels->quantize(g);
  }
}

// The inverse of Quantize with the same struct: x are the codes, out the fp32 values.
void Dequantize(Check& check, const FtQuantize& g) {
  auto* const out = static_cast<float*>(g.out);
  if (IsShort(g.format)) {
    Widen(g.format, g.x, out, g.elements);
  } else if (g.format == FT_NF4) {
    DequantizeNf4(static_cast<const std::uint8_t*>(g.x), g.elements, out);
  } else {
    check.queue()->kernels->dequantize(g);
  }
}

}  // namespace

void SetUpdateEntries(FtDeviceApi& api) {
  Set<&FtDeviceApi::adamw, &AdamW>(api);
  Set<&FtDeviceApi::sgd, &Sgd>(api);
  Set<&FtDeviceApi::momentum, &Momentum>(api);
  Set<&FtDeviceApi::lion, &Lion>(api);
  Set<&FtDeviceApi::factor_sums, &FactorSums>(api);
  Set<&FtDeviceApi::factor_moments, &FactorMoments>(api);
  Set<&FtDeviceApi::factor_size, &FactorSize>(api);
  Set<&FtDeviceApi::adafactor, &Adafactor>(api);
  Set<&FtDeviceApi::average, &Average>(api);
  Set<&FtDeviceApi::combine, &Combine>(api);
  Set<&FtDeviceApi::scale_loss, &ScaleLoss>(api);
  Set<&FtDeviceApi::quantize, &Quantize>(api);
  Set<&FtDeviceApi::dequantize, &Dequantize>(api);
}

}  // namespace foretrain
