// Optimizer updates: AdamW with moments in fp32, bf16 or 8-bit blocks, SGD, momentum, Lion, and the
// found_inf check that skips a step.
#pragma once

#include <stdint.h>

#include "base/device_api.h"
#include "base/numeric/number_formats.h"
#include "kernels/cpu/vector/simd.h"

namespace foretrain::FT_VECTOR_NAMESPACE {

// True if found_inf is set; the step must then change nothing.
FT_INLINE bool Skips(const float* not_finite) {
  return not_finite != nullptr && not_finite[0] != 0.0F;
}
// The same for an update, which a norm that is not finite skips too.
FT_INLINE bool Skips(const float* not_finite, const float* squared_norm) {
  return Skips(not_finite) || (squared_norm != nullptr && !IsFinite(squared_norm[0]));
}

// Factor of the gradients: clipping times the inverse of the loss scale.
FT_INLINE float GradientFactor(const float* squared_norm, float max_norm, float loss_scale) {
  const float undo = loss_scale == 0.0F ? 1.0F : 1.0F / loss_scale;
  if (squared_norm == nullptr) return undo;
  const float clip = max_norm / (__builtin_sqrtf(squared_norm[0]) * undo + 1e-6F);
  return clip >= 1.0F ? undo : clip * undo;
}

struct AdamFactors {
  float gradient;
  float step;  // lr / (1 - beta1^t)
  float root;  // 1 / sqrt(1 - beta2^t)
  float beta1, beta2, epsilon;
};

// Pointers to a range of elements, with moments in fp32.
struct AdamRange {
  float* param;
  const float* grad;
  float* moment1;
  float* moment2;
};

// Updates elements [begin, end). Weights are multiplied by 1 - decay first (decoupled decay).
FT_INLINE void AdamWPart(const AdamRange& r, const AdamFactors& f, float decay, int64_t begin,
                         int64_t end) {
  float* param = r.param + begin;
  const float* grad = r.grad + begin;
  float* moment1 = r.moment1 + begin;
  float* moment2 = r.moment2 + begin;
  ForEachVector(
      end - begin, [&](int64_t i, auto access) __attribute__((always_inline)) {
        const Vector gradient = access.load(grad + i) * f.gradient;
        const Vector m = access.load(moment1 + i) * f.beta1 + gradient * (1.0F - f.beta1);
        const Vector v =
            access.load(moment2 + i) * f.beta2 + gradient * gradient * (1.0F - f.beta2);
        const Vector p = access.load(param + i);
        access.store(moment1 + i, m);
        access.store(moment2 + i, v);
        access.store(param + i,
                     (p - p * decay) - f.step * m / (SquareRoot(v) * f.root + f.epsilon));
      });
}

// Updates `elements` elements, of which the first `decayed` decay.
FT_INLINE void AdamWRange(const AdamRange& r, const AdamFactors& f, float decay, int64_t decayed,
                          int64_t elements) {
  const int64_t edge = Clamp(decayed, 0, elements);
  AdamWPart(r, f, decay, 0, edge);
  AdamWPart(r, f, 0.0F, edge, elements);
}

// Maximum of |x|; NaN if any value is NaN. Compares bit patterns, in which NaN is above infinity.
FT_INLINE float LargestOf(const float* x, int64_t n) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t size = BitsOfFloat(x[i]) & 0x7fffffffU;
    largest = size > largest ? size : largest;
  }
  return FloatOfBits(largest);
}

// top / x, or 0 if x is at most 1e-35 or NaN. A block without larger values then gets only zero
// codes.
FT_INLINE float InverseOf(float x, float top) { return x > 1e-35F ? top / x : 0.0F; }

// Moments of one block, converted to fp32 for the update.
struct MomentBlock {
  alignas(64) float first[FT_SCALE_BLOCK];
  alignas(64) float second[FT_SCALE_BLOCK];
};

FT_INLINE void LoadBf16(const FtAdamW& g, int64_t begin, int64_t n, MomentBlock& block) {
  const uint16_t* first = static_cast<const uint16_t*>(g.moment1) + begin;
  const uint16_t* second = static_cast<const uint16_t*>(g.moment2) + begin;
  for (int64_t i = 0; i < n; ++i) block.first[i] = FloatOfBf16(first[i]);
  for (int64_t i = 0; i < n; ++i) block.second[i] = FloatOfBf16(second[i]);
}
FT_INLINE void StoreBf16(const FtAdamW& g, int64_t begin, int64_t n, const MomentBlock& block) {
  uint16_t* first = static_cast<uint16_t*>(g.moment1) + begin;
  uint16_t* second = static_cast<uint16_t*>(g.moment2) + begin;
  for (int64_t i = 0; i < n; ++i) first[i] = Bf16OfFloat(block.first[i]);
  for (int64_t i = 0; i < n; ++i) second[i] = Bf16OfFloat(block.second[i]);
}

constexpr DynamicTables kSignedCodes(0, 128);
constexpr DynamicTables kUnsignedCodes(1, 255);

// moment2 is stored as its square root, which halves its dynamic range.
FT_INLINE void LoadCodes(const FtAdamW& g, int64_t begin, int64_t n, MomentBlock& block) {
  const uint8_t* first = static_cast<const uint8_t*>(g.moment1) + begin;
  const uint8_t* second = static_cast<const uint8_t*>(g.moment2) + begin;
  const float scale1 = g.absmax1[begin / FT_SCALE_BLOCK];
  const float scale2 = g.absmax2[begin / FT_SCALE_BLOCK];
  for (int64_t i = 0; i < n; ++i) block.first[i] = kSignedCodes.value[first[i]] * scale1;
  for (int64_t i = 0; i < n; ++i) {
    const float root = kUnsignedCodes.value[second[i]] * scale2;
    block.second[i] = root * root;
  }
}
FT_INLINE void StoreCodes(const FtAdamW& g, int64_t begin, int64_t n, const MomentBlock& block) {
  uint8_t* first = static_cast<uint8_t*>(g.moment1) + begin;
  uint8_t* second = static_cast<uint8_t*>(g.moment2) + begin;
  const float largest1 = LargestOf(block.first, n);
  const float largest2 = __builtin_sqrtf(LargestOf(block.second, n));
  g.absmax1[begin / FT_SCALE_BLOCK] = largest1;
  g.absmax2[begin / FT_SCALE_BLOCK] = largest2;
  alignas(64) float root[FT_SCALE_BLOCK] = {};
  ForEachVector(
      n, [&](int64_t i, auto access) __attribute__((always_inline)) {
        access.store(root + i, SquareRoot(access.load(block.second + i)));
      });
  const float inverse1 = InverseOf(largest1, 1.0F);
  const float inverse2 = InverseOf(largest2, 1.0F);
  for (int64_t i = 0; i < n; ++i) {
    first[i] = static_cast<uint8_t>(kSignedCodes.SignedCodeOf(block.first[i] * inverse1));
  }
  for (int64_t i = 0; i < n; ++i) {
    second[i] = static_cast<uint8_t>(kUnsignedCodes.CodeOf(root[i] * inverse2));
  }
}

// Bias correction in fp64. Skipped steps do not count as steps.
FT_INLINE AdamFactors FactorsOf(const FtAdamW& g) {
  const double skipped = g.skipped == nullptr ? 0.0 : double{g.skipped[0]};
  const double step = static_cast<double>(g.step) - skipped;
  AdamFactors f{.gradient = GradientFactor(g.squared_norm, g.max_norm, g.loss_scale),
                .step = 0.0F,
                .root = 0.0F,
                .beta1 = g.beta1,
                .beta2 = g.beta2,
                .epsilon = g.epsilon};
  f.step = static_cast<float>(double{g.lr} / (1.0 - __builtin_pow(double{g.beta1}, step)));
  f.root = static_cast<float>(1.0 / __builtin_sqrt(1.0 - __builtin_pow(double{g.beta2}, step)));
  return f;
}

// Rounds the updated parameters stochastically to bf16, if the update asks for it.
template <class Update>
FT_INLINE void RoundParameters(const Update& g) {
  if (g.noise == 0) return;
  float* param = Floats(g.param);
  for (int64_t i = 0; i < g.elements; ++i) param[i] = StochasticBf16(param[i], g.noise);
}

// fp32 moments are updated in place. Others are converted block by block through a buffer that
// stays in the cache.
inline void AdamW(const FtAdamW& g) {
  if (Skips(g.not_finite, g.squared_norm)) return;
  const AdamFactors f = FactorsOf(g);
  const float decay = g.lr * g.weight_decay;
  if (g.moments == FT_F32) {
    const AdamRange all{Floats(g.param), Floats(g.grad), Floats(g.moment1), Floats(g.moment2)};
    AdamWRange(all, f, decay, g.decayed, g.elements);
    RoundParameters(g);
    return;
  }
  MomentBlock block = {};
  for (int64_t begin = 0; begin < g.elements; begin += FT_SCALE_BLOCK) {
    const int64_t n = Least(FT_SCALE_BLOCK, g.elements - begin);
    const AdamRange range{Floats(g.param) + begin, Floats(g.grad) + begin, block.first,
                          block.second};
    if (g.moments == FT_BF16) {
      LoadBf16(g, begin, n, block);
      AdamWRange(range, f, decay, g.decayed - begin, n);
      StoreBf16(g, begin, n, block);
    } else {
      LoadCodes(g, begin, n, block);
      AdamWRange(range, f, decay, g.decayed - begin, n);
      StoreCodes(g, begin, n, block);
    }
  }
  RoundParameters(g);
}

// One pass: reads parameter and gradient, writes the parameter.
FT_INLINE void SgdPart(const FtSgd& g, float factor, float decay, int64_t begin, int64_t end) {
  float* param = Floats(g.param) + begin;
  const float* grad = Floats(g.grad) + begin;
  ForEachVector(
      end - begin, [&](int64_t i, auto access) __attribute__((always_inline)) {
        const Vector p = access.load(param + i);
        access.store(param + i, (p - p * decay) - access.load(grad + i) * factor);
      });
}

// The split at `edge` keeps the decay out of the inner loop.
inline void Sgd(const FtSgd& g) {
  if (Skips(g.not_finite, g.squared_norm)) return;
  const float factor = g.lr * GradientFactor(g.squared_norm, g.max_norm, g.loss_scale);
  const int64_t edge = Clamp(g.decayed, 0, g.elements);
  SgdPart(g, factor, g.lr * g.weight_decay, 0, edge);
  SgdPart(g, factor, 0.0F, edge, g.elements);
  RoundParameters(g);
}

// -1, 0 or 1; NaN for NaN.
FT_INLINE Vector Sign(Vector x) {
  const Vector zero = {}, one = Set(1.0F);
  const Vector sign = (x > zero ? one : zero) - (x < zero ? one : zero);
  return x == x ? sign : x;
}

// Pointers to a range of elements, with the moment in fp32.
struct MomentumRange {
  float* param;
  const float* grad;
  float* moment;
};

// Updates elements [begin, end) by Lion or by momentum.
template <bool lion>
FT_INLINE void MomentumPart(const FtMomentum& g, const MomentumRange& r, float factor, float decay,
                            int64_t begin, int64_t end) {
  float* param = r.param + begin;
  const float* grad = r.grad + begin;
  float* moment = r.moment + begin;
  ForEachVector(
      end - begin, [&](int64_t i, auto access) __attribute__((always_inline)) {
        const Vector gradient = access.load(grad + i) * factor;
        const Vector old = access.load(moment + i);
        const Vector p = access.load(param + i);
        Vector m, step;
        if (lion) {
          step = Sign(old * g.beta1 + gradient * (1.0F - g.beta1));
          m = old * g.beta2 + gradient * (1.0F - g.beta2);
        } else {
          step = m = old * g.beta1 + gradient;
        }
        access.store(moment + i, m);
        access.store(param + i, (p - p * decay) - step * g.lr);
      });
}

// The split at the last decayed element keeps the decay out of the inner loop. bf16 moments are
// converted block by block through a buffer that stays in the cache.
template <bool lion>
FT_INLINE void UpdateByMomentum(const FtMomentum& g) {
  if (Skips(g.not_finite, g.squared_norm)) return;
  const float factor = GradientFactor(g.squared_norm, g.max_norm, g.loss_scale);
  const float decay = g.lr * g.weight_decay;
  const bool short_moments = g.moments == FT_BF16;
  const int64_t each = short_moments ? int64_t{FT_SCALE_BLOCK} : g.elements;
  alignas(64) float block[FT_SCALE_BLOCK];
  for (int64_t begin = 0; begin < g.elements; begin += each) {
    const int64_t n = Least(each, g.elements - begin);
    uint16_t* codes = static_cast<uint16_t*>(g.moment1) + begin;
    float* moment = short_moments ? block : Floats(g.moment1) + begin;
    for (int64_t i = 0; short_moments && i < n; ++i) block[i] = FloatOfBf16(codes[i]);
    const MomentumRange range{Floats(g.param) + begin, Floats(g.grad) + begin, moment};
    const int64_t edge = Clamp(g.decayed - begin, 0, n);
    MomentumPart<lion>(g, range, factor, decay, 0, edge);
    MomentumPart<lion>(g, range, factor, 0.0F, edge, n);
    for (int64_t i = 0; short_moments && i < n; ++i) codes[i] = Bf16OfFloat(block[i]);
  }
  RoundParameters(g);
}

inline void Momentum(const FtMomentum& g) { UpdateByMomentum<false>(g); }
inline void Lion(const FtMomentum& g) { UpdateByMomentum<true>(g); }

// Gradient factors of an early update: the one it used (then) and the right one (now).
struct AmendFactors {
  bool skips_then, skips_now;
  float then, now;

  bool Alike() const { return skips_then == skips_now && (skips_now || then == now); }
};
template <class Amend>
FT_INLINE AmendFactors AmendFactorsOf(const Amend& g) {
  return {Skips(g.not_finite_then, g.squared_norm_then),
          Skips(g.update.not_finite, g.update.squared_norm),
          GradientFactor(g.squared_norm_then, g.update.max_norm, g.update.loss_scale),
          GradientFactor(g.update.squared_norm, g.update.max_norm, g.update.loss_scale)};
}

FT_INLINE Vector NotNegative(Vector x) { return Max(x, Set(0.0F)); }

// Applies the difference between the update with factor `now` and the one that ran. Decay is the
// same in both, so it is not touched. moment2 is clamped at 0, because the subtraction may round
// below it.
FT_INLINE void AdamWRedo(const FtAdamW& g, const AdamFactors& f, const AmendFactors& amend) {
  float* param = Floats(g.param);
  const float* grad = Floats(g.grad);
  float* moment1 = Floats(g.moment1);
  float* moment2 = Floats(g.moment2);
  ForEachVector(
      g.elements, [&](int64_t i, auto access) __attribute__((always_inline)) {
        const Vector raw = access.load(grad + i);
        const Vector then = raw * amend.then, now = raw * amend.now;
        const Vector m = access.load(moment1 + i), v = access.load(moment2 + i);
        const Vector new_m = m + (now - then) * (1.0F - f.beta1);
        const Vector new_v = NotNegative(v + (now * now - then * then) * (1.0F - f.beta2));
        const Vector way = f.step * m / (SquareRoot(v) * f.root + f.epsilon);
        const Vector new_way = f.step * new_m / (SquareRoot(new_v) * f.root + f.epsilon);
        access.store(moment1 + i, new_m);
        access.store(moment2 + i, new_v);
        access.store(param + i, access.load(param + i) + (way - new_way));
      });
}

// Reverts an update that must be skipped: inverts the three assignments of AdamWPart in reverse
// order.
FT_INLINE void AdamWUndo(const FtAdamW& g, const AdamFactors& f, float then, float decay,
                         int64_t begin, int64_t end) {
  float* param = Floats(g.param) + begin;
  const float* grad = Floats(g.grad) + begin;
  float* moment1 = Floats(g.moment1) + begin;
  float* moment2 = Floats(g.moment2) + begin;
  const float kept = 1.0F - decay;
  ForEachVector(
      end - begin, [&](int64_t i, auto access) __attribute__((always_inline)) {
        const Vector gradient = access.load(grad + i) * then;
        const Vector m = access.load(moment1 + i), v = access.load(moment2 + i);
        const Vector way = f.step * m / (SquareRoot(v) * f.root + f.epsilon);
        access.store(moment1 + i, (m - gradient * (1.0F - f.beta1)) / f.beta1);
        access.store(moment2 + i,
                     NotNegative(v - gradient * gradient * (1.0F - f.beta2)) / f.beta2);
        access.store(param + i, (access.load(param + i) + way) / kept);
      });
}

// If the early update was skipped, the full update runs now.
inline void AdamWAmend(const FtAdamWAmend& g) {
  const AmendFactors amend = AmendFactorsOf(g);
  if (amend.Alike()) return;
  if (amend.skips_then) return AdamW(g.update);
  const AdamFactors f = FactorsOf(g.update);
  if (!amend.skips_now) return AdamWRedo(g.update, f, amend);
  const int64_t edge = Clamp(g.update.decayed, 0, g.update.elements);
  AdamWUndo(g.update, f, amend.then, g.update.lr * g.update.weight_decay, 0, edge);
  AdamWUndo(g.update, f, amend.then, 0.0F, edge, g.update.elements);
}

// Inverts SgdPart: adds the step back, then undoes the decay.
FT_INLINE void SgdUndo(const FtSgd& g, float factor, float decay, int64_t begin, int64_t end) {
  float* param = Floats(g.param) + begin;
  const float* grad = Floats(g.grad) + begin;
  const float kept = 1.0F - decay;
  ForEachVector(
      end - begin, [&](int64_t i, auto access) __attribute__((always_inline)) {
        access.store(param + i, (access.load(param + i) + access.load(grad + i) * factor) / kept);
      });
}

// Three cases: the early update was skipped and must run now, it must be undone, or only its factor
// was wrong. SGD is linear in the factor, so the last case is one more step with the difference.
inline void SgdAmend(const FtSgdAmend& g) {
  const AmendFactors amend = AmendFactorsOf(g);
  if (amend.Alike()) return;
  if (amend.skips_then) return Sgd(g.update);
  if (!amend.skips_now) {
    SgdPart(g.update, g.update.lr * (amend.now - amend.then), 0.0F, 0, g.update.elements);
    return;
  }
  const float factor = g.update.lr * amend.then;
  const int64_t edge = Clamp(g.update.decayed, 0, g.update.elements);
  SgdUndo(g.update, factor, g.update.lr * g.update.weight_decay, 0, edge);
  SgdUndo(g.update, factor, 0.0F, edge, g.update.elements);
}

// Counts infinities and NaN.
inline void CountNotFinite(const FtCountNotFinite& g) {
  const float* x = Floats(g.x);
  int64_t count = 0;
  for (int64_t i = 0; i < g.elements; ++i) {
    count += IsFinite(x[i]) ? 0 : 1;
  }
  g.out[0] = static_cast<float>(count) + (g.accumulate != 0 ? g.out[0] : 0.0F);
}

inline void CountSkipped(const FtCountSkipped& g) {
  g.skipped[0] += Skips(g.not_finite) ? 1.0F : 0.0F;
}

}  // namespace foretrain::FT_VECTOR_NAMESPACE
