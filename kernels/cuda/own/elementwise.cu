// Kernels that read and write each element once: activations, gates, additions, caps, copies.
#include "kernels/cuda/device/entries.h"
#include "kernels/cuda/own/activation.cuh"
#include "kernels/cuda/own/kernel.cuh"

namespace foretrain {
namespace {

// ---- functions of one element, in the same forms as kernels/cpu/vector/elementwise.h

constexpr float kClampLimit = 7.0F;
constexpr float kClampSlope = 1.702F;

// The three gated units: GELU, the clamped SiLU of gpt-oss, and SiLU.
FT_DEVICE float Gated(float gate, float up, FtGate kind) {
  if (kind == FT_GATE_GELU_TANH) return Activated(gate, FT_GELU_TANH) * up;
  if (kind == FT_GATE_CLAMPED) {
    const float x = gate > kClampLimit ? kClampLimit : gate;
    return x / (1.0F + expf(-kClampSlope * x)) * (Clamped(up, kClampLimit) + 1.0F);
  }
  return gate * up / (1.0F + expf(-gate));
}

// Gradients of gate and up from d, the gradient of their product.
FT_DEVICE void GatedBackward(float gate, float up, float d, FtGate kind, float& d_gate,
                             float& d_up) {
  if (kind == FT_GATE_GELU_TANH) {
    d_up = d * Activated(gate, FT_GELU_TANH);
    d_gate = d * up * GeluSlope(gate);
    return;
  }
  if (kind == FT_GATE_CLAMPED) {
    const float x = gate > kClampLimit ? kClampLimit : gate;
    const float s = 1.0F / (1.0F + expf(-kClampSlope * x));
    const float bounded = x < -100.0F ? -100.0F : x;
    const float slope = s * (1.0F + kClampSlope * bounded * (1.0F - s));
    d_gate = gate > kClampLimit ? 0.0F : d * (Clamped(up, kClampLimit) + 1.0F) * slope;
    d_up = up > kClampLimit || up < -kClampLimit ? 0.0F : d * x * s;
    return;
  }
  // d silu = s (1 + x (1 - s)). x is bounded, because x (1 - s) would be 0 * inf for infinite x.
  const float s = 1.0F / (1.0F + expf(-gate));
  d_up = d * (gate * s);
  d_gate = d * up * (s * (1.0F + Clamped(gate, 100.0F) * (1.0F - s)));
}

// ---- kernels: one octet per thread. They are limited by memory bandwidth, so 16-byte accesses
// matter and a grid-stride loop would not help.

FT_DEVICE std::int64_t ThreadOfGrid() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

template <class T, bool kBackward>
__global__ void ActivationKernel(FtGelu g) {
  const std::int64_t at = ThreadOfGrid() * kOctet, left = g.elements - at;
  if (left <= 0) return;
  float x[kOctet], d[kOctet];
  LoadOctet(static_cast<const T*>(g.x) + at, left, x);
  if (kBackward) LoadOctet(static_cast<const T*>(g.dy) + at, left, d);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    x[i] = kBackward ? d[i] * ActivationSlope(x[i], g.activation) : Activated(x[i], g.activation);
  }
  StoreOctet(static_cast<T*>(g.out) + at, left, x);
}

// Position of a thread's octet. Octets never cross rows, so that each row may start unaligned.
struct RowPlace {
  std::int64_t row, col;
};
FT_DEVICE RowPlace PlaceOf(std::int64_t thread, std::int64_t cols) {
  const std::int64_t octets = (cols + kOctet - 1) / kOctet;
  return {thread / octets, thread % octets * kOctet};
}
unsigned OctetBlocks(std::int64_t rows, std::int64_t cols) {
  return Blocks(rows * ((cols + kOctet - 1) / kOctet), kBlock);
}

// Rows of x hold gate, then up, so each thread reads two octets `cols` apart.
template <class T, bool kBackward>
__global__ void SwigluKernel(FtSwiglu g) {
  const RowPlace at = PlaceOf(ThreadOfGrid(), g.cols);
  if (at.row >= g.rows) return;
  const std::int64_t left = g.cols - at.col, wide = at.row * 2 * g.cols + at.col;
  const std::int64_t narrow = at.row * g.cols + at.col;
  float gate[kOctet], up[kOctet], d[kOctet];
  LoadOctet(static_cast<const T*>(g.x) + wide, left, gate);
  LoadOctet(static_cast<const T*>(g.x) + wide + g.cols, left, up);
  T* const out = static_cast<T*>(g.out);
  if (!kBackward) {
#pragma unroll
    for (int i = 0; i < kOctet; ++i) gate[i] = Gated(gate[i], up[i], g.gate);
    StoreOctet(out + narrow, left, gate);
    return;
  }
  LoadOctet(static_cast<const T*>(g.dy) + narrow, left, d);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    float d_gate, d_up;
    GatedBackward(gate[i], up[i], d[i], g.gate, d_gate, d_up);
    gate[i] = d_gate;
    up[i] = d_up;
  }
  StoreOctet(out + wide, left, gate);
  StoreOctet(out + wide + g.cols, left, up);
}

// Without a bias the entry passes one long row: then only the last octet can be partial.
template <class T>
__global__ void AddKernel(FtAdd g) {
  const RowPlace at = PlaceOf(ThreadOfGrid(), g.cols);
  if (at.row >= g.rows) return;
  const std::int64_t left = g.cols - at.col, i0 = at.row * g.cols + at.col;
  float a[kOctet], b[kOctet];
  LoadOctet(static_cast<const T*>(g.a) + i0, left, a);
  LoadOctet(static_cast<const T*>(g.b) + i0, left, b);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) a[i] += b[i];
  if (g.bias != nullptr) {
    LoadAnyOctet(g.bias, g.bias_dtype, at.col, left, b);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) a[i] += b[i];
  }
  StoreOctet(static_cast<T*>(g.out) + i0, left, a);
}

__global__ void SoftcapKernel(FtSoftcap g) {
  const std::int64_t at = ThreadOfGrid() * kOctet, left = g.elements - at;
  if (left <= 0) return;
  float x[kOctet];
  LoadAnyOctet(g.x, g.dtype, at, left, x);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) x[i] = g.softcap * tanhf(x[i] / g.softcap);
  StoreAnyOctet(g.x, g.dtype, at, left, x);
}

// Copies words of a size that rows and strides are aligned to: 16 bytes if possible, else one
// element.
template <class Word>
__global__ void CopyRowsKernel(const Word* from, Word* to, std::int64_t rows, std::int64_t cols,
                               std::int64_t from_stride, std::int64_t to_stride) {
  const std::int64_t i = ThreadOfGrid();
  if (i >= rows * cols) return;
  to[i / cols * to_stride + i % cols] = from[i / cols * from_stride + i % cols];
}

// ---- entries

template <bool kBackward>
void Activation(CudaCheck& check, const FtGelu& g) {
  if (g.elements == 0) return;
  WithType(g.dtype, [&](auto type) {
    using T = decltype(type);
    FT_LAUNCH((ActivationKernel<T, kBackward>), dim3(OctetBlocks(1, g.elements)), dim3(kBlock), 0,
              check.stream(), g);
  });
}

template <bool kBackward>
void Swiglu(CudaCheck& check, const FtSwiglu& g) {
  if (g.rows * g.cols == 0) return;
  WithType(g.dtype, [&](auto type) {
    using T = decltype(type);
    FT_LAUNCH((SwigluKernel<T, kBackward>), dim3(OctetBlocks(g.rows, g.cols)), dim3(kBlock), 0,
              check.stream(), g);
  });
}

// See AddKernel for the single long row.
void Add(CudaCheck& check, const FtAdd& g) {
  if (g.rows * g.cols == 0) return;
  FtAdd whole = g;
  if (g.bias == nullptr) whole.cols = g.rows * g.cols, whole.rows = 1;
  WithType(g.dtype, [&](auto type) {
    FT_LAUNCH(AddKernel<decltype(type)>, dim3(OctetBlocks(whole.rows, whole.cols)), dim3(kBlock), 0,
              check.stream(), whole);
  });
}

void Softcap(CudaCheck& check, const FtSoftcap& g) {
  if (g.elements == 0) return;
  FT_LAUNCH(SoftcapKernel, dim3(OctetBlocks(1, g.elements)), dim3(kBlock), 0, check.stream(), g);
}

template <class Word>
void CopyWordsOf(FtQueue* queue, const FtCopyRows& g, std::int64_t size) {
  const std::int64_t per_word = std::int64_t{sizeof(Word)} / size;
  const std::int64_t cols = g.cols / per_word;
  FT_LAUNCH(CopyRowsKernel<Word>, dim3(Blocks(g.rows * cols, kBlock)), dim3(kBlock), 0,
            StreamOf(queue), static_cast<const Word*>(g.from), static_cast<Word*>(g.to), g.rows,
            cols, g.from_stride / per_word, g.to_stride / per_word);
}

// Picks the widest word that divides addresses, row length and both strides.
void CopyRows(CudaCheck& check, const FtCopyRows& g) {
  if (g.rows * g.cols == 0) return;
  const std::int64_t size = g.dtype == FT_F32 ? 4 : 2;
  const auto bytes = static_cast<std::uintptr_t>(g.cols | g.from_stride | g.to_stride) *
                     static_cast<std::uintptr_t>(size);
  const auto where =
      reinterpret_cast<std::uintptr_t>(g.from) | reinterpret_cast<std::uintptr_t>(g.to);
  if (((bytes | where) & 15U) == 0) {
    CopyWordsOf<uint4>(check.queue(), g, size);
  } else if (size == 4) {
    CopyWordsOf<std::uint32_t>(check.queue(), g, size);
  } else {
    CopyWordsOf<std::uint16_t>(check.queue(), g, size);
  }
}

}  // namespace

void SetCudaElementwiseEntries(FtDeviceApi& api) {
  SetCuda<&FtDeviceApi::gelu_forward, &Activation<false>>(api);
  SetCuda<&FtDeviceApi::gelu_backward, &Activation<true>>(api);
  SetCuda<&FtDeviceApi::swiglu_forward, &Swiglu<false>>(api);
  SetCuda<&FtDeviceApi::swiglu_backward, &Swiglu<true>>(api);
  SetCuda<&FtDeviceApi::add, &Add>(api);
  SetCuda<&FtDeviceApi::softcap, &Softcap>(api);
  SetCuda<&FtDeviceApi::copy_rows, &CopyRows>(api);
}

}  // namespace foretrain
