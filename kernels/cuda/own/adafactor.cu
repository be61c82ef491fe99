// Adafactor's update of a part of a tensor, and before it sums by rows and by columns, moments and
// the size of the update. Sums have a fixed order, without atomics.
#include "kernels/cuda/device/entries.h"
#include "kernels/cuda/own/columns.cuh"
#include "kernels/cuda/own/kernel.cuh"

#include <cmath>

namespace foretrain {
namespace {

// Depends on nothing, so results do not depend on the device.
constexpr unsigned kSumBlocks = 512;
constexpr float kFactorFloor = 0x1p-23F;    // of the mean row moment; its square: of v
constexpr double kMinParameterSize = 1e-3;  // of the root mean square that scales the step

// True if the norm forbids the update; it must then change nothing.
template <class Arguments>
FT_DEVICE bool Skips(const Arguments& g) {
  return g.squared_norm != nullptr && !IsFinite(g.squared_norm[0]);
}
template <class Arguments>
FT_DEVICE float ClipOf(const Arguments& g) {
  if (g.squared_norm == nullptr) return 1.0F;
  return fminf(1.0F, g.max_norm / (sqrtf(g.squared_norm[0]) + 1e-6F));
}
FT_DEVICE double SquaresOf(const float (&x)[kOctet]) {
  double sum = 0.0;
#pragma unroll
  for (int i = 0; i < kOctet; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

// ---- sums of a part

// Term of SumColumns.
struct ColumnSquares {
  FtFactorSums g;

  FT_DEVICE void Add(std::int64_t row, std::int64_t col, std::int64_t left, float (&a)[kOctet],
                     float (&)[kOctet]) const {
    if (Skips(g)) return;
    const float clip = ClipOf(g), squared = clip * clip;
    float x[kOctet];
    LoadAnyOctet(g.grad, g.grad_dtype, row * g.cols + col, left, x);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) a[i] += x[i] * x[i] * squared;
  }
};

// One block a row.
__global__ void RowSquaresKernel(FtFactorSums g) {
  if (Skips(g)) return;
  const std::int64_t row = blockIdx.x;
  double sum = 0.0;
  for (std::int64_t c = std::int64_t{threadIdx.x} * kOctet; c < g.cols; c += kBlock * kOctet) {
    float x[kOctet];
    LoadAnyOctet(g.grad, g.grad_dtype, row * g.cols + c, g.cols - c, x);
    sum += SquaresOf(x);
  }
  const double clip = ClipOf(g);
  const double total = JoinBlock(sum, 0.0, Sum{}) * clip * clip;
  if (threadIdx.x == 0) g.row_sums[row] += static_cast<float>(total);
}

// A grid-stride loop over the octets of all rows leaves one partial sum a block. A term is the sum
// of eight squares.
template <class Term, class Arguments>
__global__ void TermsKernel(Arguments g, double* partials) {
  const std::int64_t octets = (g.cols + kOctet - 1) / kOctet;
  double sum = 0.0;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kBlock + threadIdx.x; i < g.rows * octets;
       i += std::int64_t{gridDim.x} * kBlock) {
    sum += Term{}(g, i / octets, i % octets * kOctet);
  }
  const double total = JoinBlock(sum, 0.0, Sum{});
  if (threadIdx.x == 0) partials[blockIdx.x] = total;
}

// One block adds the partials in order, and their sum to out; `clips`: times the clip's square.
template <class Arguments>
__global__ void JoinTermsKernel(Arguments g, const double* partials, std::int64_t count, bool clips,
                                float* out) {
  if (Skips(g)) return;
  double sum = 0.0;
  for (std::int64_t i = threadIdx.x; i < count; i += kBlock) sum += partials[i];
  const double clip = clips ? ClipOf(g) : 1.0F;
  const double total = JoinBlock(sum, 0.0, Sum{}) * clip * clip;
  if (threadIdx.x == 0) out[0] += static_cast<float>(total);
}

// out[0] += sum of the term over the part.
template <class Term, class Arguments>
void AddTerms(CudaCheck& check, const Arguments& g, bool clips, float* out) {
  const std::int64_t bytes = kSumBlocks * std::int64_t{sizeof(double)};
  auto* const partials = reinterpret_cast<double*>(check.Workspace(bytes));
  if (!check.ok()) return;
  const std::int64_t octets = g.rows * ((g.cols + kOctet - 1) / kOctet);
  const unsigned wanted = Blocks(octets, kBlock),
                 blocks = wanted < kSumBlocks ? wanted : kSumBlocks;
  FT_LAUNCH((TermsKernel<Term, Arguments>), dim3(blocks), dim3(kBlock), 0, check.stream(), g,
            partials);
  FT_LAUNCH(JoinTermsKernel<Arguments>, dim3(1), dim3(kBlock), 0, check.stream(), g, partials,
            std::int64_t{blocks}, clips, out);
}

struct ParamSquares {
  FT_DEVICE double operator()(const FtFactorSums& g, std::int64_t row, std::int64_t col) const {
    float x[kOctet];
    LoadAnyOctet(g.param, g.dtype, row * g.cols + col, g.cols - col, x);
    return SquaresOf(x);
  }
};

void FactorSums(CudaCheck& check, const FtFactorSums& g) {
  if (g.rows == 0 || g.cols == 0) return;
  check.AtMost("rows", g.rows, 0x7fffffff);
  SumColumns(check.queue(), check, ColumnSquares{g}, g.rows, g.cols, g.col_sums, nullptr, FT_F32,
             /*accumulate=*/1);
  if (!check.ok()) return;
  if (g.row_sums != nullptr) {
    FT_LAUNCH(RowSquaresKernel, dim3(static_cast<unsigned>(g.rows)), dim3(kBlock), 0,
              check.stream(), g);
  }
  AddTerms<ParamSquares>(check, g, /*clips=*/false, g.param_squares);
}

// ---- moments of a whole tensor

// moments += rate (sums / count - moments).
__global__ void MoveMomentsKernel(FtFactorMoments g, const float* sums, std::int64_t numbers,
                                  std::int64_t count, float rate, float* moments) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  if (i >= numbers || Skips(g)) return;
  const float each = 1.0F / static_cast<float>(count);
  moments[i] += rate * (sums[i] * each - moments[i]);
}

// One block. The mean of the moments of rows; 1 of a vector.
__global__ void RowMeanKernel(FtFactorMoments g) {
  if (Skips(g)) return;
  double sum = 0.0;
  for (std::int64_t i = threadIdx.x; g.moment1 != nullptr && i < g.rows; i += kBlock) {
    sum += static_cast<double>(g.moment1[i]);
  }
  const double total = JoinBlock(sum, 0.0, Sum{});
  if (threadIdx.x != 0) return;
  g.row_mean[0] =
      g.moment1 == nullptr ? 1.0F : static_cast<float>(total / static_cast<double>(g.rows));
}

void FactorMoments(CudaCheck& check, const FtFactorMoments& g) {
  if (g.rows == 0 || g.cols == 0 || !check.ok()) return;
  const auto rate = static_cast<float>(std::pow(static_cast<double>(g.step), -0.8));
  const dim3 block(kBlock);
  FT_LAUNCH(MoveMomentsKernel, dim3(Blocks(g.cols, kBlock)), block, 0, check.stream(), g,
            g.col_sums, g.cols, g.rows, rate, g.moment2);
  if (g.moment1 != nullptr) {
    FT_LAUNCH(MoveMomentsKernel, dim3(Blocks(g.rows, kBlock)), block, 0, check.stream(), g,
              g.row_sums, g.rows, g.cols, rate, g.moment1);
  }
  FT_LAUNCH(RowMeanKernel, dim3(1), block, 0, check.stream(), g);
}

// ---- the update and its size

// The moment of a row over the mean of all rows'; 1 of a vector.
FT_DEVICE float RowFactor(const FtAdafactor& g, std::int64_t row) {
  if (g.moment1 == nullptr) return 1.0F;
  return g.moment1[row] / fmaxf(g.row_mean[0], kFactorFloor);
}

// Eight elements of a row from `col` on, of the gradient over the root of the second moment.
FT_DEVICE void StepOctet(const FtAdafactor& g, std::int64_t row, std::int64_t col,
                         float (&u)[kOctet]) {
  const float row_factor = RowFactor(g, row);
  const std::int64_t left = g.cols - col;
  float v[kOctet];
  LoadAnyOctet(g.grad, g.grad_dtype, row * g.cols + col, left, u);
  LoadAnyOctet(g.moment2, FT_F32, col, left, v);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    u[i] = u[i] / sqrtf(fmaxf(v[i] * row_factor, kFactorFloor * kFactorFloor));
  }
}

struct StepSquares {
  FT_DEVICE double operator()(const FtAdafactor& g, std::int64_t row, std::int64_t col) const {
    float u[kOctet];
    StepOctet(g, row, col, u);
    return SquaresOf(u);
  }
};

void FactorSize(CudaCheck& check, const FtAdafactor& g) {
  if (g.rows == 0 || g.cols == 0) return;
  AddTerms<StepSquares>(check, g, /*clips=*/true, g.update_squares);
}

// Factor of the step: computed by one thread a block, since fp64 roots are slow on a GPU.
FT_DEVICE float StepFactor(const FtAdafactor& g) {
  __shared__ float shared;
  if (threadIdx.x == 0) {
    const double count = static_cast<double>(g.inner);
    const double size = sqrt(static_cast<double>(g.param_squares[0]) / count);
    const double update = sqrt(static_cast<double>(g.update_squares[0]) / count);
    const double rate = 1.0 / sqrt(static_cast<double>(g.step)), lr = g.lr;
    const double alpha =
        (size > kMinParameterSize ? size : kMinParameterSize) * (lr < rate ? lr : rate);
    const double clip = ClipOf(g);
    shared = static_cast<float>(alpha / (update > 1.0 ? update : 1.0) * clip);
  }
  __syncthreads();
  return shared;
}

// One octet a thread.
__global__ void UpdateKernel(FtAdafactor g) {
  if (Skips(g)) return;
  const float by = StepFactor(g);
  const float decay = g.decays != 0 ? g.lr * g.weight_decay : 0.0F;
  const std::int64_t octets = (g.cols + kOctet - 1) / kOctet;
  const std::int64_t thread = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  const std::int64_t row = thread / octets, col = thread % octets * kOctet;
  if (row >= g.rows) return;
  const std::int64_t at = row * g.cols + col, left = g.cols - col;
  float p[kOctet], u[kOctet];
  StepOctet(g, row, col, u);
  LoadAnyOctet(g.param, g.dtype, at, left, p);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    p[i] = (p[i] - p[i] * decay) - u[i] * by;
    if (g.noise != 0) p[i] = StochasticBf16(p[i], g.noise);
  }
  StoreAnyOctet(g.param, g.dtype, at, left, p);
  if (g.weights != nullptr) StoreAnyOctet(g.weights, g.weights_dtype, at, left, p);
}

void Adafactor(CudaCheck& check, const FtAdafactor& g) {
  if (g.rows == 0 || g.cols == 0 || !check.ok()) return;
  const std::int64_t octets = g.rows * ((g.cols + kOctet - 1) / kOctet);
  FT_LAUNCH(UpdateKernel, dim3(Blocks(octets, kBlock)), dim3(kBlock), 0, check.stream(), g);
}

}  // namespace

void SetCudaAdafactorEntries(FtDeviceApi& api) {
  SetCuda<&FtDeviceApi::factor_sums, &FactorSums>(api);
  SetCuda<&FtDeviceApi::factor_moments, &FactorMoments>(api);
  SetCuda<&FtDeviceApi::factor_size, &FactorSize>(api);
  SetCuda<&FtDeviceApi::adafactor, &Adafactor>(api);
}

}  // namespace foretrain
