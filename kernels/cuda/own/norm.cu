// LayerNorm and RMSNorm, optionally fused with a preceding addition. One block per row. The first
// octet of each thread stays in registers, so rows of up to 8,192 elements are read once.
#include "kernels/cuda/device/entries.h"
#include "kernels/cuda/own/columns.cuh"
#include "kernels/cuda/own/kernel.cuh"

namespace foretrain {
namespace {

// Forward: y, mean and rstd of the rows of `x`. If `a` is set, x is first computed as a + b + bias.
template <class T>
struct ForwardTensors {
  const T* a;  // NULL: x is an input
  const T* b;
  const void* bias;
  T* x;
  const void* weight;
  const void* norm_bias;
  FtDtype weight_dtype;  // also the format of the biases
  T* y;
  float* mean;
  float* rstd;
  std::int64_t cols;
  float epsilon;
};

// Eight elements of x from `c` on, computed and stored if x is not an input. They are rounded as
// stored, so that the result equals two separate kernels bit for bit.
template <class T>
FT_DEVICE void ReadOrMake(const ForwardTensors<T>& t, std::int64_t row, std::int64_t c,
                          float (&x)[kOctet]) {
  const std::int64_t at = row * t.cols + c, left = t.cols - c;
  if (t.a == nullptr) return LoadOctet(t.x + at, left, x);
  float other[kOctet];
  LoadOctet(t.a + at, left, x);
  LoadOctet(t.b + at, left, other);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) x[i] += other[i];
  if (t.bias != nullptr) {
    LoadAnyOctet(t.bias, t.weight_dtype, c, left, other);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) x[i] += other[i];
  }
  StoreOctet(t.x + at, left, x);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) x[i] = Rounded<T>(x[i]);
}

// Two passes over the row: the mean, then the squared deviations. The second pass rereads only what
// does not fit in registers.
template <class T>
__global__ void __launch_bounds__(1024) NormForwardKernel(ForwardTensors<T> t, int rms) {
  const std::int64_t row = blockIdx.x, first = std::int64_t{threadIdx.x} * kOctet;
  const std::int64_t step = std::int64_t{blockDim.x} * kOctet;
  const auto cols = static_cast<float>(t.cols);
  float held[kOctet] = {}, x[kOctet];
  float sum = 0.0F;
  if (first < t.cols) ReadOrMake(t, row, first, held);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) sum += held[i];
  for (std::int64_t c = first + step; c < t.cols; c += step) {
    ReadOrMake(t, row, c, x);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) sum += x[i];
  }
  const float mean = rms != 0 ? 0.0F : SumBlock(sum) / cols;
  // Sums squared deviations, so the variance cannot become negative.
  float square = 0.0F;
  for (std::int64_t c = first; c < t.cols; c += step) {
    if (c != first) LoadOctet(t.x + row * t.cols + c, t.cols - c, x);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      const float deviation = (c == first ? held[i] : x[i]) - mean;
      square += c + i < t.cols ? deviation * deviation : 0.0F;
    }
  }
  const float rstd = 1.0F / sqrtf(SumBlock<1>(square) / cols + t.epsilon);
  if (threadIdx.x == 0) {
    t.rstd[row] = rstd;
    if (rms == 0) t.mean[row] = mean;
  }
  for (std::int64_t c = first; c < t.cols; c += step) {
    const std::int64_t left = t.cols - c;
    float weight[kOctet], bias[kOctet] = {};
    if (c != first) LoadOctet(t.x + row * t.cols + c, left, x);
    LoadAnyOctet(t.weight, t.weight_dtype, c, left, weight);
    if (t.norm_bias != nullptr) LoadAnyOctet(t.norm_bias, t.weight_dtype, c, left, bias);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      x[i] = ((c == first ? held[i] : x[i]) - mean) * rstd * weight[i] + bias[i];
    }
    StoreOctet(t.y + row * t.cols + c, left, x);
  }
}

// One block per row; RowThreads picks threads by the row's length.
template <class T>
void LaunchForward(FtQueue* queue, const ForwardTensors<T>& tensors, std::int64_t rows,
                   std::int32_t rms) {
  FT_LAUNCH(NormForwardKernel<T>, dim3(Blocks(rows, 1)), dim3(RowThreads(tensors.cols)), 0,
            StreamOf(queue), tensors, rms);
}

void NormForward(CudaCheck& check, const FtNormForward& g) {
  if (g.rows == 0) return;
  WithType(g.dtype, [&](auto type) {
    using T = decltype(type);
    LaunchForward<T>(check.queue(),
                     {.a = nullptr,
                      .b = nullptr,
                      .bias = nullptr,
                      .x = static_cast<T*>(const_cast<void*>(g.x)),
                      .weight = g.weight,
                      .norm_bias = g.rms != 0 ? nullptr : g.bias,
                      .weight_dtype = g.weight_dtype,
                      .y = static_cast<T*>(g.y),
                      .mean = g.mean,
                      .rstd = g.rstd,
                      .cols = g.cols,
                      .epsilon = g.epsilon},
                     g.rows, g.rms);
  });
}

// One kernel instead of an addition and a norm: the sum is written once and not read again.
void AddNormForward(CudaCheck& check, const FtAddNormForward& g) {
  if (g.rows == 0) return;
  WithType(g.dtype, [&](auto type) {
    using T = decltype(type);
    LaunchForward<T>(check.queue(),
                     {.a = static_cast<const T*>(g.a),
                      .b = static_cast<const T*>(g.b),
                      .bias = g.bias,
                      .x = static_cast<T*>(g.sum),
                      .weight = g.weight,
                      .norm_bias = g.rms != 0 ? nullptr : g.norm_bias,
                      .weight_dtype = g.weight_dtype,
                      .y = static_cast<T*>(g.y),
                      .mean = g.mean,
                      .rstd = g.rstd,
                      .cols = g.cols,
                      .epsilon = g.epsilon},
                     g.rows, g.rms);
  });
}

// dx = rstd (a - mean a - xhat mean(a xhat)) + residual, with a = dy * weight. RMSNorm has no mean
// a.
template <class T>
__global__ void __launch_bounds__(1024) NormBackwardInputKernel(FtNormBackwardInput g) {
  const std::int64_t row = blockIdx.x, first = std::int64_t{threadIdx.x} * kOctet;
  const std::int64_t step = std::int64_t{blockDim.x} * kOctet;
  const auto cols = static_cast<float>(g.cols);
  const T* const dy = static_cast<const T*>(g.dy) + row * g.cols;
  const T* const x = static_cast<const T*>(g.x) + row * g.cols;
  const float mean = g.rms != 0 ? 0.0F : g.mean[row], rstd = g.rstd[row];
  float held_a[kOctet] = {}, held_x[kOctet] = {};
  float sum_a = 0.0F, sum_ax = 0.0F;
  for (std::int64_t c = first; c < g.cols; c += step) {
    const std::int64_t left = g.cols - c;
    float a[kOctet], of_x[kOctet], weight[kOctet];
    LoadOctet(dy + c, left, a);
    LoadOctet(x + c, left, of_x);
    LoadAnyOctet(g.weight, g.weight_dtype, c, left, weight);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      a[i] *= weight[i];
      of_x[i] -= mean;
      sum_a += a[i];
      sum_ax += a[i] * of_x[i];  // a is 0 past the end
      if (c == first) held_a[i] = a[i], held_x[i] = of_x[i];
    }
  }
  const float mean_a = g.rms != 0 ? 0.0F : SumBlock(sum_a) / cols;
  const float slope = SumBlock<1>(sum_ax) / cols * rstd * rstd;
  for (std::int64_t c = first; c < g.cols; c += step) {
    const std::int64_t left = g.cols - c, at = row * g.cols + c;
    float a[kOctet], of_x[kOctet], residual[kOctet] = {};
    if (c != first) {
      float weight[kOctet];
      LoadOctet(dy + c, left, a);
      LoadOctet(x + c, left, of_x);
      LoadAnyOctet(g.weight, g.weight_dtype, c, left, weight);
#pragma unroll
      for (int i = 0; i < kOctet; ++i) a[i] *= weight[i], of_x[i] -= mean;
    }
    if (g.residual != nullptr) LoadOctet(static_cast<const T*>(g.residual) + at, left, residual);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      const float of_a = c == first ? held_a[i] : a[i];
      const float deviation = c == first ? held_x[i] : of_x[i];
      a[i] = (of_a - mean_a - deviation * slope) * rstd + residual[i];
    }
    StoreOctet(static_cast<T*>(g.dx) + at, left, a);
  }
}

void NormBackwardInput(CudaCheck& check, const FtNormBackwardInput& g) {
  if (g.rows == 0) return;
  WithType(g.dtype, [&](auto type) {
    FT_LAUNCH(NormBackwardInputKernel<decltype(type)>, dim3(Blocks(g.rows, 1)),
              dim3(RowThreads(g.cols)), 0, check.stream(), g);
  });
}

// Terms of both weight gradients of one row, for SumColumns.
template <class T>
struct NormWeightTerm {
  const T* dy;
  const T* x;
  const float* mean;  // NULL: 0
  const float* rstd;
  std::int64_t cols;

  FT_DEVICE void Add(std::int64_t row, std::int64_t col, std::int64_t left, float (&a)[kOctet],
                     float (&b)[kOctet]) const {
    float of_dy[kOctet], of_x[kOctet];
    LoadOctet(dy + row * cols + col, left, of_dy);
    LoadOctet(x + row * cols + col, left, of_x);
    const float of_mean = mean == nullptr ? 0.0F : mean[row], of_rstd = rstd[row];
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      a[i] += of_dy[i] * ((of_x[i] - of_mean) * of_rstd);
      b[i] += of_dy[i];
    }
  }
};

void NormBackwardWeight(CudaCheck& check, const FtNormBackwardWeight& g) {
  WithType(g.dtype, [&](auto type) {
    using T = decltype(type);
    const NormWeightTerm<T> term{static_cast<const T*>(g.dy), static_cast<const T*>(g.x),
                                 g.rms != 0 ? nullptr : g.mean, g.rstd, g.cols};
    SumColumns(check.queue(), check, term, g.rows, g.cols, g.weight_grad,
               g.rms != 0 ? nullptr : g.bias_grad, g.grad_dtype, g.accumulate);
  });
}

// Terms of a bias gradient: dy itself.
template <class T>
struct BiasTerm {
  const T* dy;
  std::int64_t cols;

  FT_DEVICE void Add(std::int64_t row, std::int64_t col, std::int64_t left, float (&a)[kOctet],
                     float (&)[kOctet]) const {
    float of_dy[kOctet];
    LoadOctet(dy + row * cols + col, left, of_dy);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) a[i] += of_dy[i];
  }
};

}  // namespace

// Also called by GEMM entries whose epilogue the library lacks.
FtStatus CudaBiasGrad(FtQueue* queue, const FtBiasGrad* g) {
  CudaCheck check(queue, FT_KERNEL_BIAS_GRAD, *g);
  if (!check.ok()) return check.status();
  WithType(g->dtype, [&](auto type) {
    using T = decltype(type);
    SumColumns(queue, check, BiasTerm<T>{static_cast<const T*>(g->dy), g->cols}, g->rows, g->cols,
               g->grad, nullptr, g->grad_dtype, g->accumulate);
  });
  return check.Launched();
}

void SetCudaNormEntries(FtDeviceApi& api) {
  SetCuda<&FtDeviceApi::norm_forward, &NormForward>(api);
  SetCuda<&FtDeviceApi::add_norm_forward, &AddNormForward>(api);
  SetCuda<&FtDeviceApi::norm_backward_input, &NormBackwardInput>(api);
  SetCuda<&FtDeviceApi::norm_backward_weight, &NormBackwardWeight>(api);
  api.bias_grad = &CudaBiasGrad;
}

}  // namespace foretrain
