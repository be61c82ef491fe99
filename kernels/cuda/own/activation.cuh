// Activation functions of one element, in the same forms as kernels/cpu/vector/elementwise.h.
#pragma once

#include "kernels/cuda/own/kernel.cuh"

namespace foretrain {

constexpr float kGeluLinear = 1.5957691216F;  // 2 sqrt(2 / pi)
constexpr float kGeluCubic = 0.0713548163F;   // the same times 0.044715
constexpr float kInverseRoot2Pi = 0.3989422804F;

FT_DEVICE float Clamped(float x, float most) { return x > most ? most : x < -most ? -most : x; }

// tanh GELU is x / (1 + e^-2u) with u = sqrt(2 / pi) (x + 0.044715 x^3). This is 1 / (1 + e^-2u).
FT_DEVICE float GeluShare(float x) {
  return 1.0F / (1.0F + expf(-x * (x * x * kGeluCubic + kGeluLinear)));
}
// Derivative of x s(w), w = 2u: s + x s (1 - s) w'. Beyond |x| = 20 the term s (1 - s) is 0; the
// bound keeps w' finite.
FT_DEVICE float GeluSlope(float x) {
  const float bounded = Clamped(x, 20.0F);
  const float s = GeluShare(bounded);
  return s + bounded * s * (1.0F - s) * (3.0F * bounded * bounded * kGeluCubic + kGeluLinear);
}
FT_DEVICE float Relu(float x) { return x < 0.0F ? 0.0F : x; }

// Normal distribution function at x.
FT_DEVICE float NormalBelow(float x) { return 0.5F * erfcf(x * -0.7071067812F); }

FT_DEVICE float Activated(float x, FtActivation activation) {
  if (activation == FT_GELU_ERF) return x < -20.0F ? 0.0F : x * NormalBelow(x);
  if (activation == FT_RELU) return Relu(x);
  if (activation == FT_SQUARED_RELU) return Relu(x) * Relu(x);
  return x / (1.0F + expf(-x * (x * x * kGeluCubic + kGeluLinear)));
}
FT_DEVICE float ActivationSlope(float x, FtActivation activation) {
  if (activation == FT_GELU_ERF) {
    const float bounded = Clamped(x, 20.0F);
    return NormalBelow(bounded) + bounded * expf(-0.5F * bounded * bounded) * kInverseRoot2Pi;
  }
  if (activation == FT_RELU) return x > 0.0F ? 1.0F : x == x ? 0.0F : x;
  if (activation == FT_SQUARED_RELU) return 2.0F * Relu(x);
  return GeluSlope(x);
}

}  // namespace foretrain
