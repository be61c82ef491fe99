// GEMM, by the first of three ways that accepts the call: cuBLASLt (library_products.cu), tensor
// cores (tensor_gemm.cu), or shared-memory tiles on CUDA cores (here). Expert products use the last
// two.
#include "kernels/cuda/device/entries.h"
#include "kernels/cuda/hopper/hopper_experts.cuh"
#include "kernels/cuda/library/library_products.cuh"
#include "kernels/cuda/own/activation.cuh"
#include "kernels/cuda/own/experts/expert_runs.cuh"
#include "kernels/cuda/own/fp8.cuh"
#include "kernels/cuda/own/kernel.cuh"
#include "kernels/cuda/tensor/tensor_gemm.cuh"

namespace foretrain {
namespace {

constexpr int kTile = 64;       // rows and columns of c per block
constexpr int kTileDepth = 16;  // depth per step
constexpr int kPart = 4;        // rows and columns of c per thread

// An operand op(matrix), with strides that include the transposition.
struct Matrix {
  const void* at;
  std::int64_t row, col;  // element strides of op(matrix)
};

// Converts stored elements of an operand to fp32. Element i lies at (row, col) of the matrix that
// is multiplied.
struct Reading {
  FtDtype dtype;
  bool tf32, turned;  // turned: op() transposes, so row and col swap for the scales
  CodeScales scales;

  FT_DEVICE float operator()(const void* at, std::int64_t i, std::int64_t row,
                             std::int64_t col) const {
    const float x = LoadOperand(at, dtype, i);
    if (scales.AreOfBlocks()) return x * (turned ? scales.Of(col, row) : scales.Of(row, col));
    return tf32 ? Tf32OfFloat(x) : x;
  }
};
// Readings of both operands. a_row and b_row are the first rows of the stored matrices within the
// tensors that the scales belong to.
struct Readings {
  Reading a, b;
};
FT_DEVICE Readings ReadingsOf(const FtGemm& g, std::int64_t a_row, std::int64_t b_row) {
  const FtDtype of_b = IsCode(g.dtype) ? FT_FP8 : g.dtype;
  const bool tf32 = g.compute == FT_TF32, turn_a = g.trans_a != 0, turn_b = g.trans_b == 0;
  return {{g.dtype, tf32, turn_a, {g.a_scale, g.a_scaling, turn_a ? g.m : g.k, a_row}},
          {of_b, tf32, turn_b, {g.b_scale, g.b_scaling, turn_b ? g.n : g.k, b_row}}};
}

// Loads a tile of op(a) as [depth][kTile], 0 past the ends. Consecutive threads read consecutive
// addresses, whether op transposes or not. The padding column avoids bank conflicts.
FT_DEVICE void LoadTile(const Matrix& a, const Reading& reading, std::int64_t first,
                        std::int64_t rows, std::int64_t depth, std::int64_t all_depth,
                        float (&tile)[kTileDepth][kTile + 1]) {
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kTileDepth; i += kBlock) {
    const int r = a.row == 1 ? i % kTile : i / kTileDepth;
    const int d = a.row == 1 ? i / kTile : i % kTileDepth;
    const std::int64_t row = first + r, at = depth + d;
    const bool is_there = row < rows && at < all_depth;
    tile[d][r] = is_there ? reading(a.at, row * a.row + at * a.col, row, at) : 0.0F;
  }
}

// Applies the epilogue to one value of c; reads or writes aux.
FT_DEVICE float EndOf(const FtGemm& g, std::int64_t row, std::int64_t col, float y) {
  if (g.epilogue == FT_EPILOGUE_NONE) return y;
  const std::int64_t at = row * g.ld_aux + col;
  if (g.epilogue == FT_EPILOGUE_SLOPE) {
    return y * ActivationSlope(LoadAny(g.aux, g.c_dtype, at), g.activation);
  }
  if (g.aux != nullptr) StoreAny(g.aux, g.c_dtype, at, y);
  return Activated(y, g.activation);
}

// Accumulators of one thread: 4 x 4 elements of c.
struct Part {
  float sum[kPart][kPart];
};
FT_DEVICE int PartCol() { return static_cast<int>(threadIdx.x) % (kTile / kPart) * kPart; }
FT_DEVICE int PartRow() { return static_cast<int>(threadIdx.x) / (kTile / kPart) * kPart; }

// part += the thread's share of the product, for one tile per block. Depth runs in order, so the
// bits of c depend neither on m nor on n.
FT_DEVICE void AddProduct(const Matrix& a, const Matrix& b, const FtGemm& g,
                          const Readings& readings, std::int64_t row0, std::int64_t col0,
                          Part& part) {
  __shared__ float of_a[kTileDepth][kTile + 1];
  __shared__ float of_b[kTileDepth][kTile + 1];
  const int x = PartCol(), y = PartRow();
  for (std::int64_t depth = 0; depth < g.k; depth += kTileDepth) {
    LoadTile(a, readings.a, row0, g.m, depth, g.k, of_a);
    LoadTile(b, readings.b, col0, g.n, depth, g.k, of_b);
    __syncthreads();
#pragma unroll
    for (int d = 0; d < kTileDepth; ++d) {
#pragma unroll
      for (int i = 0; i < kPart; ++i) {
#pragma unroll
        for (int j = 0; j < kPart; ++j) part.sum[i][j] += of_a[d][y + i] * of_b[d][x + j];
      }
    }
    __syncthreads();
  }
}

// c[m, n] (+)= epilogue of scale * part + bias. A tensor-wide scale is applied here, once per
// element.
FT_DEVICE void StorePart(const FtGemm& g, std::int64_t row0, std::int64_t col0, const Part& part) {
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
#pragma unroll
    for (int j = 0; j < kPart; ++j) {
      const std::int64_t row = row0 + PartRow() + i, col = col0 + PartCol() + j;
      if (row >= g.m || col >= g.n) continue;
      float value = part.sum[i][j] * g.scale;
      if (g.a_scale != nullptr && g.a_scaling == FT_SCALE_TENSOR) value *= *g.a_scale;
      if (g.b_scale != nullptr && g.b_scaling == FT_SCALE_TENSOR) value *= *g.b_scale;
      if (g.bias != nullptr) value += LoadAny(g.bias, g.bias_dtype, col);
      if (g.accumulate != 0) value += LoadAny(g.c, g.c_dtype, row * g.ldc + col);
      StoreAny(g.c, g.c_dtype, row * g.ldc + col, EndOf(g, row, col, value));
    }
  }
}

FT_DEVICE Matrix LeftOf(const FtGemm& g) {
  return {g.a, g.trans_a != 0 ? 1 : g.lda, g.trans_a != 0 ? g.lda : 1};
}
FT_DEVICE Matrix RightOf(const FtGemm& g) {  // as rows of op(b)^T
  return {g.b, g.trans_b != 0 ? g.ldb : 1, g.trans_b != 0 ? 1 : g.ldb};
}

__global__ void __launch_bounds__(kBlock, 2) GemmKernel(FtGemm g) {
  const std::int64_t row0 = std::int64_t{blockIdx.y} * kTile,
                     col0 = std::int64_t{blockIdx.x} * kTile;
  Part part{};
  AddProduct(LeftOf(g), RightOf(g), g, ReadingsOf(g, 0, 0), row0, col0, part);
  StorePart(g, row0, col0, part);
}

constexpr std::int64_t kMaxRows = std::int64_t{65535} * kTile;  // limit of the grid's y dimension

bool HasBlocks(const FtGemm& g) {
  return g.a_scaling != FT_SCALE_TENSOR || g.b_scaling != FT_SCALE_TENSOR;
}

// Launches the tiles, in several launches if c has more rows than a grid holds.
void LaunchTiles(FtQueue* queue, FtGemm g) {
  g.scale = g.scale == 0.0F ? 1.0F : g.scale;
  const std::int64_t size_a = IsCode(g.dtype) ? 1 : g.dtype == FT_F32 ? 4 : 2;
  const std::int64_t size_c = g.c_dtype == FT_F32 ? 4 : 2;
  for (std::int64_t row = 0; row < g.m; row += kMaxRows) {
    FtGemm part = g;
    part.m = g.m - row < kMaxRows ? g.m - row : kMaxRows;
    part.a = static_cast<const char*>(g.a) + row * size_a * (g.trans_a != 0 ? 1 : g.lda);
    part.c = static_cast<char*>(g.c) + row * size_c * g.ldc;
    if (g.aux != nullptr) part.aux = static_cast<char*>(g.aux) + row * size_c * g.ld_aux;
    FT_LAUNCH(GemmKernel, dim3(Blocks(g.n, kTile), Blocks(part.m, kTile)), dim3(kBlock), 0,
              StreamOf(queue), part);
  }
}

// Runs the product by the first of the three ways that accepts it. Row sums are part of the
// library's product; the other two compute them separately.
FtStatus Product(FtQueue* queue, CudaCheck& check, const FtGemm& g) {
  if (g.k > 0 && QueueOf(queue).gemm != nullptr) {
    const FtStatus status = LibraryProduct(queue, check, g);
    if (status != FT_UNSUPPORTED) return status;
  }
  if (g.row_sums != nullptr) {
    const FtStatus status = SumRows(queue, check, g);
    if (status != FT_OK) return status;
  }
  if (TakesTensorCores(queue, g)) return TensorGemm(queue, check, g);
  LaunchTiles(queue, g);
  return check.Launched();
}

FtStatus Gemm(FtQueue* queue, const FtGemm* g) {
  CudaCheck check(queue, FT_KERNEL_GEMM, *g);
  if (HasBlocks(*g) && (g->lda != (g->trans_a != 0 ? g->m : g->k) ||
                        g->ldb != (g->trans_b != 0 ? g->k : g->n) || g->m > kMaxRows)) {
    check.Refuse(FT_UNSUPPORTED, "scales of blocks: of dense a and b, and at most %lld rows",
                 static_cast<long long>(kMaxRows));
  }
  if (!check.ok() || g->m == 0) return check.status();
  if (g->n == 0) return g->row_sums != nullptr ? SumRows(queue, check, *g) : FT_OK;
  return Product(queue, check, *g);
}

// ---- products of experts, whose run lengths lie in device memory

FT_DEVICE void SetScales(const FtGroupedGemm& g, FtGemm& to) {
  to.a_scale = g.a_scale, to.b_scale = g.b_scale;
  to.a_scaling = g.a_scaling, to.b_scaling = g.b_scaling;
}

// Run blockIdx.z of FORWARD and INPUT. Tiles past the run's rows return at once.
__global__ void __launch_bounds__(kBlock, 2) GroupedRowsKernel(FtGroupedGemm g) {
  const unsigned run = blockIdx.z;
  const GroupRows rows = RowsBefore(g, run);
  const std::int64_t row0 = std::int64_t{blockIdx.y} * kTile;
  if (row0 >= rows.count) return;
  const bool forward = g.mode == FT_GROUPED_FORWARD;
  const std::int64_t in = forward ? g.in : g.out, out = forward ? g.out : g.in;
  FtGemm of_run{};
  of_run.m = rows.count, of_run.n = out, of_run.k = in, of_run.ldc = out;
  of_run.dtype = g.dtype, of_run.c_dtype = g.c_dtype, of_run.compute = g.compute;
  of_run.accumulate = g.accumulate, of_run.scale = 1.0F;
  SetScales(g, of_run), of_run.trans_b = forward ? 1 : 0;
  of_run.c = const_cast<char*>(Shifted(g.c, g.c_dtype, rows.first * out));
  const Matrix a{Shifted(g.a, g.dtype, rows.first * in), in, 1};
  const std::int64_t expert = run % static_cast<unsigned>(g.experts);
  const Matrix b{Shifted(g.b, g.dtype, expert * g.out * g.in), forward ? g.in : 1,
                 forward ? 1 : g.in};
  const std::int64_t col0 = std::int64_t{blockIdx.x} * kTile;
  Part part{};
  const Readings readings = ReadingsOf(of_run, rows.first, expert * g.out);
  AddProduct(a, b, of_run, readings, row0, col0, part);
  StorePart(of_run, row0, col0, part);
}

// Expert blockIdx.z of WEIGHT: the sum over its runs, one after the other, in registers.
__global__ void __launch_bounds__(kBlock, 2) GroupedWeightKernel(FtGroupedGemm g) {
  const std::int64_t row0 = std::int64_t{blockIdx.y} * kTile,
                     col0 = std::int64_t{blockIdx.x} * kTile;
  FtGemm of_expert{};
  of_expert.m = g.out, of_expert.n = g.in, of_expert.ldc = g.in;
  of_expert.dtype = g.dtype, of_expert.c_dtype = g.c_dtype, of_expert.compute = g.compute;
  of_expert.accumulate = g.accumulate, of_expert.scale = 1.0F;
  SetScales(g, of_expert), of_expert.trans_a = 1;
  of_expert.c = const_cast<char*>(Shifted(g.c, g.c_dtype, std::int64_t{blockIdx.z} * g.out * g.in));
  Part part{};
  for (unsigned run = blockIdx.z; run < g.groups; run += static_cast<unsigned>(g.experts)) {
    const GroupRows rows = RowsBefore(g, run);
    of_expert.k = rows.count;
    const Matrix a{Shifted(g.a, g.dtype, rows.first * g.out), 1, g.out};
    const Matrix b{Shifted(g.b, g.dtype, rows.first * g.in), 1, g.in};
    AddProduct(a, b, of_expert, ReadingsOf(of_expert, rows.first, rows.first), row0, col0, part);
  }
  StorePart(of_expert, row0, col0, part);
}

FtStatus GroupedGemm(FtQueue* queue, const FtGroupedGemm* g) {
  CudaCheck check(queue, FT_KERNEL_GROUPED_GEMM, *g);
  CheckRuns(check, *g);
  const bool weight = g->mode == FT_GROUPED_WEIGHT, forward = g->mode == FT_GROUPED_FORWARD;
  if (!check.ok() || g->out == 0 || g->in == 0) return check.status();
  if (TakesTensorCores(queue, *g)) {
#ifndef FT_HOST_SHIM
    if (TakesWarpgroups(queue, *g)) return WarpgroupGroupedGemm(queue, check, *g);
#endif
    return TensorGroupedGemm(queue, check, *g);
  }
  if (weight) {
    FT_LAUNCH(GroupedWeightKernel,
              dim3(Blocks(g->in, kTile), Blocks(g->out, kTile), static_cast<unsigned>(g->experts)),
              dim3(kBlock), 0, StreamOf(queue), *g);
    return check.Launched();
  }
  // The host does not know the run lengths, so the grid covers the longest possible run.
  const std::int64_t most = g->counts == nullptr ? g->rows / g->groups : g->rows;
  check.AtMost("rows of a run", most, std::int64_t{65535} * kTile);
  if (!check.ok() || most == 0) return check.status();
  FT_LAUNCH(GroupedRowsKernel,
            dim3(Blocks(forward ? g->out : g->in, kTile), Blocks(most, kTile),
                 static_cast<unsigned>(g->groups)),
            dim3(kBlock), 0, StreamOf(queue), *g);
  return check.Launched();
}

// ---- biases of experts

__global__ void ExpertBiasKernel(FtExpertBias g) {
  const unsigned run = blockIdx.y;
  const GroupRows rows = RowsBefore(g, run);
  const std::int64_t bias = run % static_cast<unsigned>(g.experts) * g.cols;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kBlock + threadIdx.x; i < rows.count * g.cols;
       i += std::int64_t{gridDim.x} * kBlock) {
    const std::int64_t at = rows.first * g.cols + i;
    const float add = g.scale * LoadAny(g.bias, g.bias_dtype, bias + i % g.cols);
    StoreAny(g.x, g.dtype, at, LoadAny(g.x, g.dtype, at) + add);
  }
}

void ExpertBias(CudaCheck& check, const FtExpertBias& g) {
  CheckRuns(check, g);
  if (!check.ok() || g.rows * g.cols == 0) return;
  const unsigned blocks = Blocks(g.rows * g.cols, kBlock * std::int64_t{8} * g.groups);
  FT_LAUNCH(ExpertBiasKernel, dim3(blocks, static_cast<unsigned>(g.groups)), dim3(kBlock), 0,
            check.stream(), g);
}

// One expert per blockIdx.y, 32 columns per block, rows spread over eight warps. The warps' sums
// are added in order.
__global__ void ExpertBiasGradKernel(FtExpertBiasGrad g) {
  __shared__ float of_warps[kOctet][kWarp];
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  const std::int64_t col = std::int64_t{blockIdx.x} * kWarp + lane;
  float sum = 0.0F;
  for (unsigned run = blockIdx.y; run < g.groups; run += static_cast<unsigned>(g.experts)) {
    const GroupRows rows = RowsBefore(g, run);
    for (std::int64_t row = warp; row < rows.count && col < g.cols; row += kOctet) {
      sum += LoadAny(g.dy, g.dtype, (rows.first + row) * g.cols + col);
    }
  }
  of_warps[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || col >= g.cols) return;
  const std::int64_t at = std::int64_t{blockIdx.y} * g.cols + col;
  float total = g.accumulate != 0 ? LoadAny(g.bias_grad, g.grad_dtype, at) : 0.0F;
  for (int w = 0; w < kOctet; ++w) total += of_warps[w][lane];
  StoreAny(g.bias_grad, g.grad_dtype, at, total);
}

void ExpertBiasGrad(CudaCheck& check, const FtExpertBiasGrad& g) {
  CheckRuns(check, g);
  if (!check.ok() || g.cols == 0) return;
  FT_LAUNCH(ExpertBiasGradKernel, dim3(Blocks(g.cols, kWarp), static_cast<unsigned>(g.experts)),
            dim3(kWarp, kOctet), 0, check.stream(), g);
}

}  // namespace

void SetCudaGemmEntries(FtDeviceApi& api) {
  api.gemm = &Gemm;
  api.grouped_gemm = &GroupedGemm;
  SetCuda<&FtDeviceApi::expert_bias, &ExpertBias>(api);
  SetCuda<&FtDeviceApi::expert_bias_grad, &ExpertBiasGrad>(api);
}

}  // namespace foretrain
