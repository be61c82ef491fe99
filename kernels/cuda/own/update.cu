// Optimizer updates. Compiled without fused multiply-add contraction, so that results equal the
// CPU's bit for bit. Speed is limited by memory anyway. Longer than 400 lines: all optimizers share
// one way to load, scale, skip and store.
#include "kernels/cuda/device/entries.h"
#include "kernels/cuda/own/kernel.cuh"

namespace foretrain {
namespace {

// True if found_inf is set; the step must then change nothing.
FT_DEVICE bool Skips(const float* not_finite) {
  return not_finite != nullptr && not_finite[0] != 0.0F;
}
// The same for an update, which a norm that is not finite skips too.
FT_DEVICE bool Skips(const float* not_finite, const float* squared_norm) {
  return Skips(not_finite) || (squared_norm != nullptr && !IsFinite(squared_norm[0]));
}

// One thread: it updates one number.
__global__ void CountSkippedKernel(FtCountSkipped g) {
  g.skipped[0] += Skips(g.not_finite) ? 1.0F : 0.0F;
}

void CountSkipped(CudaCheck& check, const FtCountSkipped& g) {
  FT_LAUNCH(CountSkippedKernel, dim3(1), dim3(1), 0, check.stream(), g);
}

// One thread: it updates two numbers.
__global__ void ScaleLossKernel(FtScaleLoss g) {
  if (Skips(g.not_finite)) {
    const float half = ldexpf(g.initial, static_cast<int>(g.loss_scale[0]) - 1);
    if (half >= 1.0F) g.loss_scale[0] -= 1.0F;
    g.since[0] = 0.0F;
    return;
  }
  g.since[0] += 1.0F;
  if (g.since[0] < static_cast<float>(g.growth_interval)) return;
  g.loss_scale[0] += 1.0F;
  g.since[0] = 0.0F;
}

void ScaleLoss(CudaCheck& check, const FtScaleLoss& g) {
  FT_LAUNCH(ScaleLossKernel, dim3(1), dim3(1), 0, check.stream(), g);
}

// ---- updates

// Factor of the gradients: clipping times the inverse of the loss scale.
FT_DEVICE float GradientFactor(const float* squared_norm, float max_norm, float loss_scale) {
  const float undo = loss_scale == 0.0F ? 1.0F : 1.0F / loss_scale;
  if (squared_norm == nullptr) return undo;
  const float clip = max_norm / (sqrtf(squared_norm[0]) * undo + 1e-6F);
  return clip >= 1.0F ? undo : clip * undo;
}

// The gradient factor with the current dynamic loss scale.
template <class Update>
FT_DEVICE float FactorOf(const Update& g, const float* squared_norm) {
  const float initial = g.loss_scale == 0.0F ? 1.0F : g.loss_scale;
  return GradientFactor(squared_norm, g.max_norm, ScaledBy(initial, g.loss_scale_state));
}

struct AdamFactors {
  float step;  // lr / (1 - beta1^t)
  float root;  // 1 / sqrt(1 - beta2^t)
};

// Computed by one thread per block: fp64 powers are slow on a GPU.
FT_DEVICE AdamFactors FactorsOf(const FtAdamW& g) {
  __shared__ AdamFactors shared;
  if (threadIdx.x == 0) {
    const double skipped = g.skipped == nullptr ? 0.0 : static_cast<double>(g.skipped[0]);
    const double step = static_cast<double>(g.step) - skipped;
    shared.step = static_cast<float>(static_cast<double>(g.lr) /
                                     (1.0 - pow(static_cast<double>(g.beta1), step)));
    shared.root = static_cast<float>(1.0 / sqrt(1.0 - pow(static_cast<double>(g.beta2), step)));
  }
  __syncthreads();
  return shared;
}

struct Moments {
  float m[kOctet], v[kOctet];
};

// One AdamW step of eight elements; those before `decayed` decay.
FT_DEVICE void AdamWOctet(const FtAdamW& g, const AdamFactors& f, float factor, std::int64_t at,
                          float (&p)[kOctet], const float (&grad)[kOctet], Moments& moments) {
  const float decay = g.lr * g.weight_decay;
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    const float gradient = grad[i] * factor;
    const float m = moments.m[i] * g.beta1 + gradient * (1.0F - g.beta1);
    const float v = moments.v[i] * g.beta2 + gradient * gradient * (1.0F - g.beta2);
    const float of_decay = at + i < g.decayed ? decay : 0.0F;
    p[i] = (p[i] - p[i] * of_decay) - f.step * m / (sqrtf(v) * f.root + g.epsilon);
    moments.m[i] = m;
    moments.v[i] = v;
  }
}

// Rounds stochastically if asked, then writes param and its copy in weights_dtype.
template <class Update>
FT_DEVICE void StoreParameters(const Update& g, std::int64_t at, float (&p)[kOctet]) {
  if (g.noise != 0) {
#pragma unroll
    for (int i = 0; i < kOctet; ++i) p[i] = StochasticBf16(p[i], g.noise);
  }
  StoreAnyOctet(g.param, g.dtype, at, g.elements - at, p);
  if (g.weights != nullptr) StoreAnyOctet(g.weights, g.weights_dtype, at, g.elements - at, p);
}

// Updates with moments in fp32 or bf16. A grid-stride loop limits the blocks, each of which
// computes fp64 powers once.
__global__ void AdamWKernel(FtAdamW g) {
  if (Skips(g.not_finite, g.squared_norm)) return;
  const AdamFactors f = FactorsOf(g);
  const float factor = FactorOf(g, g.squared_norm);
  const std::int64_t step = std::int64_t{gridDim.x} * kBlock * kOctet;
  for (std::int64_t at = (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) * kOctet;
       at < g.elements; at += step) {
    const std::int64_t left = g.elements - at;
    float p[kOctet], grad[kOctet];
    Moments moments;
    LoadAnyOctet(g.param, g.dtype, at, left, p);
    LoadAnyOctet(g.grad, g.grad_dtype, at, left, grad);
    LoadAnyOctet(g.moment1, g.moments, at, left, moments.m);
    LoadAnyOctet(g.moment2, g.moments, at, left, moments.v);
    AdamWOctet(g, f, factor, at, p, grad, moments);
    StoreAnyOctet(g.moment1, g.moments, at, left, moments.m);
    StoreAnyOctet(g.moment2, g.moments, at, left, moments.v);
    StoreParameters(g, at, p);
  }
}

// Tables of 8-bit codes, computed at compile time by the host compiler.
__device__ const DynamicTables kSignedCodes(0, 128);
__device__ const DynamicTables kUnsignedCodes(1, 255);

// top / x, or 0 if x is at most 1e-35 or NaN.
FT_DEVICE float InverseOf(float x, float top) { return x > 1e-35F ? top / x : 0.0F; }

// Maximum of |x| over the warp. Compares bit patterns, in which NaN is above infinity.
FT_DEVICE float LargestOfWarp(const float (&x)[kOctet], std::int64_t left) {
  std::uint32_t most = 0;
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    const std::uint32_t size = i < left ? BitsOfFloat(x[i]) & 0x7fffffffU : 0U;
    most = size > most ? size : most;
  }
#pragma unroll
  for (int bits = kWarp / 2; bits > 0; bits /= 2) {
    const std::uint32_t other = __shfl_xor_sync(kAllLanes, most, bits);
    most = other > most ? other : most;
  }
  return FloatOfBits(most);
}

static_assert(FT_SCALE_BLOCK == kWarp * kOctet);

// One warp per block of moments that share a scale: it dequantizes, updates and quantizes in
// registers.
__global__ void AdamWCodesKernel(FtAdamW g) {
  if (Skips(g.not_finite, g.squared_norm)) return;
  const AdamFactors f = FactorsOf(g);
  const float factor = FactorOf(g, g.squared_norm);
  const std::int64_t block = (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) / kWarp;
  if (block * FT_SCALE_BLOCK >= g.elements) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t at = block * FT_SCALE_BLOCK + lane * kOctet, left = g.elements - at;
  auto* const code1 = static_cast<std::uint8_t*>(g.moment1);
  auto* const code2 = static_cast<std::uint8_t*>(g.moment2);
  const float scale1 = g.absmax1[block], scale2 = g.absmax2[block];
  float p[kOctet], grad[kOctet];
  Moments moments;
  LoadAnyOctet(g.param, g.dtype, at, left, p);
  LoadAnyOctet(g.grad, g.grad_dtype, at, left, grad);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    moments.m[i] = i < left ? kSignedCodes.value[code1[at + i]] * scale1 : 0.0F;
    const float root = i < left ? kUnsignedCodes.value[code2[at + i]] * scale2 : 0.0F;
    moments.v[i] = root * root;
  }
  AdamWOctet(g, f, factor, at, p, grad, moments);
  const float largest1 = LargestOfWarp(moments.m, left);
  const float largest2 = sqrtf(LargestOfWarp(moments.v, left));
  __syncwarp();  // all lanes have read the old scales
  if (lane == 0) g.absmax1[block] = largest1, g.absmax2[block] = largest2;
  const float inverse1 = InverseOf(largest1, 1.0F), inverse2 = InverseOf(largest2, 1.0F);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    if (i >= left) continue;
    code1[at + i] = static_cast<std::uint8_t>(kSignedCodes.SignedCodeOf(moments.m[i] * inverse1));
    code2[at + i] =
        static_cast<std::uint8_t>(kUnsignedCodes.CodeOf(sqrtf(moments.v[i]) * inverse2));
  }
  StoreParameters(g, at, p);
}

// One octet per thread; no fp64 powers, so no grid-stride loop.
__global__ void SgdKernel(FtSgd g) {
  if (Skips(g.not_finite, g.squared_norm)) return;
  const float factor = g.lr * FactorOf(g, g.squared_norm);
  const float decay = g.lr * g.weight_decay;
  const std::int64_t at = (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) * kOctet;
  if (at >= g.elements) return;
  float p[kOctet], grad[kOctet];
  LoadAnyOctet(g.param, g.dtype, at, g.elements - at, p);
  LoadAnyOctet(g.grad, g.grad_dtype, at, g.elements - at, grad);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    p[i] = (p[i] - p[i] * (at + i < g.decayed ? decay : 0.0F)) - grad[i] * factor;
  }
  StoreParameters(g, at, p);
}

// -1, 0 or 1; NaN for NaN.
FT_DEVICE float Sign(float x) {
  const float sign = (x > 0.0F ? 1.0F : 0.0F) - (x < 0.0F ? 1.0F : 0.0F);
  return x == x ? sign : x;
}

// One octet per thread, by Lion or by momentum.
template <bool lion>
__global__ void MomentumKernel(FtMomentum g) {
  if (Skips(g.not_finite, g.squared_norm)) return;
  const float factor = FactorOf(g, g.squared_norm);
  const float decay = g.lr * g.weight_decay;
  const std::int64_t at = (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) * kOctet;
  if (at >= g.elements) return;
  const std::int64_t left = g.elements - at;
  float p[kOctet], grad[kOctet], moment[kOctet];
  LoadAnyOctet(g.param, g.dtype, at, left, p);
  LoadAnyOctet(g.grad, g.grad_dtype, at, left, grad);
  LoadAnyOctet(g.moment1, g.moments, at, left, moment);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    const float gradient = grad[i] * factor, old = moment[i];
    float step;
    if (lion) {
      step = Sign(old * g.beta1 + gradient * (1.0F - g.beta1));
      moment[i] = old * g.beta2 + gradient * (1.0F - g.beta2);
    } else {
      step = moment[i] = old * g.beta1 + gradient;
    }
    p[i] = (p[i] - p[i] * (at + i < g.decayed ? decay : 0.0F)) - step * g.lr;
  }
  StoreAnyOctet(g.moment1, g.moments, at, left, moment);
  StoreParameters(g, at, p);
}

// One octet per thread.
__global__ void AverageKernel(FtAverage g) {
  const std::int64_t at = (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) * kOctet;
  if (at >= g.elements) return;
  const std::int64_t left = g.elements - at;
  float p[kOctet], average[kOctet];
  LoadAnyOctet(g.param, g.dtype, at, left, p);
  LoadAnyOctet(g.average, FT_F32, at, left, average);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) average[i] += (p[i] - average[i]) * g.rate;
  StoreAnyOctet(g.average, FT_F32, at, left, average);
}

// One octet per thread.
__global__ void CombineKernel(FtCombine g) {
  const std::int64_t at = (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) * kOctet;
  if (at >= g.elements) return;
  const std::int64_t left = g.elements - at;
  float factor = 1.0F;
  if (g.squared_norm != nullptr) {
    if (g.max_norm > 0.0F && g.beta != 0.0F && !IsFinite(g.squared_norm[0])) return;
    const float norm = sqrtf(g.squared_norm[0]);
    factor = g.max_norm == 0.0F ? 1.0F / (norm + 1e-7F) : fminf(1.0F, g.max_norm / (norm + 1e-6F));
  }
  const float alpha = g.alpha * factor;
  float x[kOctet], out[kOctet] = {};
  LoadAnyOctet(g.x, g.x_dtype, at, left, x);
  if (g.beta != 0.0F) LoadAnyOctet(g.out, FT_F32, at, left, out);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) out[i] = alpha * x[i] + g.beta * out[i];
  StoreAnyOctet(g.out, FT_F32, at, left, out);
}

// ---- amendments: gradient factors of an early update, then (as used) and now (as they should be)

struct AmendFactors {
  bool skips_then, skips_now;
  float then, now;

  FT_DEVICE bool Alike() const { return skips_then == skips_now && (skips_now || then == now); }
};
// Both factors use the same loss scale, so only the norm and the skip differ.
template <class Amend>
FT_DEVICE AmendFactors AmendFactorsOf(const Amend& g) {
  return {Skips(g.not_finite_then, g.squared_norm_then),
          Skips(g.update.not_finite, g.update.squared_norm),
          FactorOf(g.update, g.squared_norm_then), FactorOf(g.update, g.update.squared_norm)};
}

// moment2 may round below 0 when a term is subtracted from it.
FT_DEVICE float NotNegative(float x) { return x < 0.0F ? 0.0F : x; }

// Three cases. An update that was skipped then runs now. One that must be skipped now is inverted.
// Otherwise the difference of the two updates is applied; decay is the same in both.
FT_DEVICE void AmendOctet(const FtAdamW& g, const AdamFactors& f, const AmendFactors& amend,
                          std::int64_t at, float (&p)[kOctet], const float (&grad)[kOctet],
                          Moments& moments) {
  if (amend.skips_then) return AdamWOctet(g, f, amend.now, at, p, grad, moments);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    const float then = grad[i] * amend.then, m = moments.m[i], v = moments.v[i];
    const float way = f.step * m / (sqrtf(v) * f.root + g.epsilon);
    if (amend.skips_now) {
      const float kept = 1.0F - (at + i < g.decayed ? g.lr * g.weight_decay : 0.0F);
      moments.m[i] = (m - then * (1.0F - g.beta1)) / g.beta1;
      moments.v[i] = NotNegative(v - then * then * (1.0F - g.beta2)) / g.beta2;
      p[i] = (p[i] + way) / kept;
    } else {
      const float now = grad[i] * amend.now;
      moments.m[i] = m + (now - then) * (1.0F - g.beta1);
      moments.v[i] = NotNegative(v + (now * now - then * then) * (1.0F - g.beta2));
      p[i] += way - f.step * moments.m[i] / (sqrtf(moments.v[i]) * f.root + g.epsilon);
    }
  }
}

// Most updates need no amendment; all threads then return at once.
__global__ void AdamWAmendKernel(FtAdamWAmend g) {
  const AmendFactors amend = AmendFactorsOf(g);
  if (amend.Alike()) return;
  const AdamFactors f = FactorsOf(g.update);
  const FtAdamW& u = g.update;
  const std::int64_t at = (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) * kOctet;
  const std::int64_t left = u.elements - at;
  if (left <= 0) return;
  float p[kOctet], grad[kOctet];
  Moments moments;
  LoadOctet(static_cast<const float*>(u.param) + at, left, p);
  LoadOctet(static_cast<const float*>(u.grad) + at, left, grad);
  LoadOctet(static_cast<const float*>(u.moment1) + at, left, moments.m);
  LoadOctet(static_cast<const float*>(u.moment2) + at, left, moments.v);
  AmendOctet(u, f, amend, at, p, grad, moments);
  StoreOctet(static_cast<float*>(u.moment1) + at, left, moments.m);
  StoreOctet(static_cast<float*>(u.moment2) + at, left, moments.v);
  StoreParameters(u, at, p);
}

// The same three cases as AmendOctet.
__global__ void SgdAmendKernel(FtSgdAmend g) {
  const AmendFactors amend = AmendFactorsOf(g);
  if (amend.Alike()) return;
  const FtSgd& u = g.update;
  const std::int64_t at = (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) * kOctet;
  const std::int64_t left = u.elements - at;
  if (left <= 0) return;
  float p[kOctet], grad[kOctet];
  LoadOctet(static_cast<const float*>(u.param) + at, left, p);
  LoadOctet(static_cast<const float*>(u.grad) + at, left, grad);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    const float decay = at + i < u.decayed ? u.lr * u.weight_decay : 0.0F;
    if (amend.skips_then) {
      p[i] = (p[i] - p[i] * decay) - grad[i] * (u.lr * amend.now);
    } else if (amend.skips_now) {
      p[i] = (p[i] + grad[i] * (u.lr * amend.then)) / (1.0F - decay);
    } else {
      p[i] = p[i] - grad[i] * (u.lr * (amend.now - amend.then));
    }
  }
  StoreParameters(u, at, p);
}

// ---- entries

void AdamW(CudaCheck& check, const FtAdamW& g) {
  if (g.elements == 0) return;
  const unsigned blocks = Blocks(g.elements, kBlock * kOctet);
  if (g.moments == FT_I8) {
    FT_LAUNCH(AdamWCodesKernel, dim3(blocks), dim3(kBlock), 0, check.stream(), g);
  } else {
    constexpr unsigned kMost = 4096;  // FactorsOf computes fp64 powers once per block
    FT_LAUNCH(AdamWKernel, dim3(blocks < kMost ? blocks : kMost), dim3(kBlock), 0, check.stream(),
              g);
  }
}

void Sgd(CudaCheck& check, const FtSgd& g) {
  if (g.elements == 0) return;
  FT_LAUNCH(SgdKernel, dim3(Blocks(g.elements, kBlock * kOctet)), dim3(kBlock), 0, check.stream(),
            g);
}

template <bool lion>
void MomentumUpdate(CudaCheck& check, const FtMomentum& g) {
  if (g.elements == 0) return;
  FT_LAUNCH(MomentumKernel<lion>, dim3(Blocks(g.elements, kBlock * kOctet)), dim3(kBlock), 0,
            check.stream(), g);
}

void Average(CudaCheck& check, const FtAverage& g) {
  if (g.elements == 0) return;
  FT_LAUNCH(AverageKernel, dim3(Blocks(g.elements, kBlock * kOctet)), dim3(kBlock), 0,
            check.stream(), g);
}

void Combine(CudaCheck& check, const FtCombine& g) {
  if (g.elements == 0) return;
  FT_LAUNCH(CombineKernel, dim3(Blocks(g.elements, kBlock * kOctet)), dim3(kBlock), 0,
            check.stream(), g);
}

void AdamWAmend(CudaCheck& check, const FtAdamWAmend& g) {
  if (g.update.elements == 0) return;
  FT_LAUNCH(AdamWAmendKernel, dim3(Blocks(g.update.elements, kBlock * kOctet)), dim3(kBlock), 0,
            check.stream(), g);
}

void SgdAmend(CudaCheck& check, const FtSgdAmend& g) {
  if (g.update.elements == 0) return;
  FT_LAUNCH(SgdAmendKernel, dim3(Blocks(g.update.elements, kBlock * kOctet)), dim3(kBlock), 0,
            check.stream(), g);
}

}  // namespace

void SetCudaUpdateEntries(FtDeviceApi& api) {
  SetCuda<&FtDeviceApi::count_skipped, &CountSkipped>(api);
  SetCuda<&FtDeviceApi::scale_loss, &ScaleLoss>(api);
  SetCuda<&FtDeviceApi::adamw, &AdamW>(api);
  SetCuda<&FtDeviceApi::sgd, &Sgd>(api);
  SetCuda<&FtDeviceApi::momentum, &MomentumUpdate<false>>(api);
  SetCuda<&FtDeviceApi::lion, &MomentumUpdate<true>>(api);
  SetCuda<&FtDeviceApi::average, &Average>(api);
  SetCuda<&FtDeviceApi::combine, &Combine>(api);
  SetCuda<&FtDeviceApi::adamw_amend, &AdamWAmend>(api);
  SetCuda<&FtDeviceApi::sgd_amend, &SgdAmend>(api);
}

}  // namespace foretrain
