// Adafactor's update of one tensor: moments of rows and columns, the size of the update, and the
// update itself. Sums have a fixed order, without atomics.
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

// Sums over the tensor, in the order in which kernels compute them.
struct Totals {
  double param_squares, row_moments, update_squares;
};

// True if the norm forbids the update; it must then change nothing.
FT_DEVICE bool Skips(const FtAdafactor& g) {
  return g.squared_norm != nullptr && !IsFinite(g.squared_norm[0]);
}
FT_DEVICE float ClipOf(const FtAdafactor& g) {
  if (g.squared_norm == nullptr) return 1.0F;
  return fminf(1.0F, g.max_norm / (sqrtf(g.squared_norm[0]) + 1e-6F));
}

// Term of SumColumns: rate times the mean of squares, which is added to the moments.
struct ColumnSquares {
  FtAdafactor g;
  float rate;

  FT_DEVICE void Add(std::int64_t row, std::int64_t col, std::int64_t left, float (&a)[kOctet],
                     float (&)[kOctet]) const {
    if (Skips(g)) return;
    const float clip = ClipOf(g), each = rate * clip * clip / static_cast<float>(g.rows);
    float x[kOctet];
    LoadAnyOctet(g.grad, g.grad_dtype, row * g.cols + col, left, x);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) a[i] += x[i] * x[i] * each;
  }
};

__global__ void DecayColumnsKernel(FtAdafactor g, float rate) {
  const std::int64_t col = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  if (col < g.cols && !Skips(g)) g.moment2[col] *= 1.0F - rate;
}

// One block a row.
__global__ void RowMomentsKernel(FtAdafactor g, float rate) {
  if (Skips(g)) return;
  const std::int64_t row = blockIdx.x;
  double sum = 0.0;
  for (std::int64_t c = std::int64_t{threadIdx.x} * kOctet; c < g.cols; c += kBlock * kOctet) {
    float x[kOctet];
    LoadAnyOctet(g.grad, g.grad_dtype, row * g.cols + c, g.cols - c, x);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  const double clip = ClipOf(g);
  const double mean = JoinBlock(sum, 0.0, Sum{}) * clip * clip / static_cast<double>(g.cols);
  if (threadIdx.x == 0) g.moment1[row] += rate * (static_cast<float>(mean) - g.moment1[row]);
}

// The moment of a row over the mean of all rows'; 1 of a vector.
FT_DEVICE float RowFactor(const FtAdafactor& g, const Totals& totals, std::int64_t row) {
  if (g.rows == 1) return 1.0F;
  const auto mean = static_cast<float>(totals.row_moments / static_cast<double>(g.rows));
  return g.moment1[row] / fmaxf(mean, kFactorFloor);
}

// Eight elements of a row from `col` on, of the gradient over the root of the second moment.
FT_DEVICE void StepOctet(const FtAdafactor& g, float row_factor, std::int64_t row, std::int64_t col,
                         float (&u)[kOctet]) {
  const std::int64_t left = g.cols - col;
  float v[kOctet];
  LoadAnyOctet(g.grad, g.grad_dtype, row * g.cols + col, left, u);
  LoadAnyOctet(g.moment2, FT_F32, col, left, v);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    u[i] = u[i] / sqrtf(fmaxf(v[i] * row_factor, kFactorFloor * kFactorFloor));
  }
}

struct ParamSquares {
  FT_DEVICE double operator()(const FtAdafactor& g, const Totals&, std::int64_t row,
                              std::int64_t col) const {
    float x[kOctet];
    LoadAnyOctet(g.param, g.dtype, row * g.cols + col, g.cols - col, x);
    double sum = 0.0;
#pragma unroll
    for (int i = 0; i < kOctet; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    return sum;
  }
};
struct StepSquares {
  FT_DEVICE double operator()(const FtAdafactor& g, const Totals& totals, std::int64_t row,
                              std::int64_t col) const {
    float u[kOctet];
    StepOctet(g, RowFactor(g, totals, row), row, col, u);
    double sum = 0.0;
#pragma unroll
    for (int i = 0; i < kOctet; ++i) sum += static_cast<double>(u[i]) * static_cast<double>(u[i]);
    return sum;
  }
};

// A grid-stride loop over the octets of all rows leaves one partial sum a block.
template <class Term>
__global__ void TermsKernel(FtAdafactor g, const Totals* totals, double* partials) {
  const std::int64_t octets = (g.cols + kOctet - 1) / kOctet;
  double sum = 0.0;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kBlock + threadIdx.x; i < g.rows * octets;
       i += std::int64_t{gridDim.x} * kBlock) {
    sum += Term{}(g, *totals, i / octets, i % octets * kOctet);
  }
  const double total = JoinBlock(sum, 0.0, Sum{});
  if (threadIdx.x == 0) partials[blockIdx.x] = total;
}

// One block adds numbers in order.
template <class T>
__global__ void JoinKernel(const T* numbers, std::int64_t count, double* out) {
  double sum = 0.0;
  for (std::int64_t i = threadIdx.x; i < count; i += kBlock) sum += static_cast<double>(numbers[i]);
  const double total = JoinBlock(sum, 0.0, Sum{});
  if (threadIdx.x == 0) *out = total;
}

// Factor of the step: computed by one thread a block, since fp64 roots are slow on a GPU.
FT_DEVICE float StepFactor(const FtAdafactor& g, const Totals& totals) {
  __shared__ float shared;
  if (threadIdx.x == 0) {
    const double count = static_cast<double>(g.rows) * static_cast<double>(g.cols);
    const double clip = ClipOf(g);
    const double size = sqrt(totals.param_squares / count);
    const double update = sqrt(totals.update_squares / count) * clip;
    const double rate = 1.0 / sqrt(static_cast<double>(g.step)), lr = g.lr;
    const double alpha =
        (size > kMinParameterSize ? size : kMinParameterSize) * (lr < rate ? lr : rate);
    shared = static_cast<float>(alpha / (update > 1.0 ? update : 1.0) * clip);
  }
  __syncthreads();
  return shared;
}

// One octet a thread.
__global__ void UpdateKernel(FtAdafactor g, const Totals* totals) {
  if (Skips(g)) return;
  const float by = StepFactor(g, *totals);
  const float decay = g.decays != 0 ? g.lr * g.weight_decay : 0.0F;
  const std::int64_t octets = (g.cols + kOctet - 1) / kOctet;
  const std::int64_t thread = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  const std::int64_t row = thread / octets, col = thread % octets * kOctet;
  if (row >= g.rows) return;
  const std::int64_t at = row * g.cols + col, left = g.cols - col;
  float p[kOctet], u[kOctet];
  StepOctet(g, RowFactor(g, *totals, row), row, col, u);
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
  if (g.rows == 0 || g.cols == 0) return;
  check.AtMost("rows", g.rows, 0x7fffffff);
  const auto rate = static_cast<float>(std::pow(static_cast<double>(g.step), -0.8));
  FT_LAUNCH(DecayColumnsKernel, dim3(Blocks(g.cols, kBlock)), dim3(kBlock), 0, check.stream(), g,
            rate);
  SumColumns(check.queue(), check, ColumnSquares{g, rate}, g.rows, g.cols, g.moment2, nullptr,
             FT_F32, /*accumulate=*/1);
  const std::int64_t bytes =
      kSumBlocks * std::int64_t{sizeof(double)} + std::int64_t{sizeof(Totals)};
  auto* const partials = reinterpret_cast<double*>(check.Workspace(bytes));
  if (!check.ok()) return;
  auto* const totals = reinterpret_cast<Totals*>(partials + kSumBlocks);
  const std::int64_t octets = g.rows * ((g.cols + kOctet - 1) / kOctet);
  const unsigned wanted = Blocks(octets, kBlock),
                 blocks = wanted < kSumBlocks ? wanted : kSumBlocks;
  const dim3 one(1), block(kBlock);
  if (g.rows > 1) {
    FT_LAUNCH(RowMomentsKernel, dim3(static_cast<unsigned>(g.rows)), block, 0, check.stream(), g,
              rate);
    FT_LAUNCH(JoinKernel<float>, one, block, 0, check.stream(), g.moment1, g.rows,
              &totals->row_moments);
  }
  FT_LAUNCH(TermsKernel<ParamSquares>, dim3(blocks), block, 0, check.stream(), g, totals, partials);
  FT_LAUNCH(JoinKernel<double>, one, block, 0, check.stream(), partials, std::int64_t{blocks},
            &totals->param_squares);
  FT_LAUNCH(TermsKernel<StepSquares>, dim3(blocks), block, 0, check.stream(), g, totals, partials);
  FT_LAUNCH(JoinKernel<double>, one, block, 0, check.stream(), partials, std::int64_t{blocks},
            &totals->update_squares);
  FT_LAUNCH(UpdateKernel, dim3(Blocks(octets, kBlock)), block, 0, check.stream(), g, totals);
}

}  // namespace

void SetCudaAdafactorEntry(FtDeviceApi& api) { SetCuda<&FtDeviceApi::adafactor, &Adafactor>(api); }

}  // namespace foretrain
