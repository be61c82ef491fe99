// Sums over the rows of a matrix, one per column: gradients of weights and biases. Two passes
// without atomics, so that equal inputs give equal bits.
#pragma once

#include "kernels/cuda/own/kernel.cuh"

namespace foretrain {

constexpr int kColumnRows = 8;                // rows that a block reads at the same time
constexpr int kColumnBlock = kWarp * kOctet;  // columns that a block sums
constexpr std::int64_t kColumnSplits = 512;   // enough blocks to fill a device

// First pass: partials[2][splits][cols] are sums over rows [split * rows_per_split, ...).
// term.Add(row, col, left, a, b) adds the row's eight terms from `col` on to a and b. A block is 32
// x 8 threads: each warp reads 256 columns of every eighth row, then the eight warps' sums are
// added in shared memory, in order.
template <class Term>
__global__ void __launch_bounds__(kWarp* kColumnRows, 4)
    SumColumnsKernel(Term term, std::int64_t rows, std::int64_t cols, std::int64_t rows_per_split,
                     float* partials) {
  __shared__ float of_rows[2][kColumnRows][kColumnBlock];
  const int lane = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const std::int64_t col = std::int64_t{blockIdx.x} * kColumnBlock + lane * kOctet;
  const std::int64_t begin = blockIdx.y * rows_per_split;
  const std::int64_t end = begin + rows_per_split < rows ? begin + rows_per_split : rows;
  float a[kOctet] = {}, b[kOctet] = {};
  if (col < cols) {
    for (std::int64_t row = begin + y; row < end; row += kColumnRows) {
      term.Add(row, col, cols - col, a, b);
    }
  }
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    of_rows[0][y][lane * kOctet + i] = a[i];
    of_rows[1][y][lane * kOctet + i] = b[i];
  }
  __syncthreads();
  const std::int64_t plane = std::int64_t{gridDim.y} * cols;
  for (int i = y * kWarp + lane; i < 2 * kColumnBlock; i += kWarp * kColumnRows) {
    const int which = i / kColumnBlock, c = i % kColumnBlock;
    const std::int64_t at = std::int64_t{blockIdx.x} * kColumnBlock + c;
    if (at >= cols) continue;
    float sum = 0.0F;
#pragma unroll
    for (int r = 0; r < kColumnRows; ++r) sum += of_rows[which][r][c];
    partials[which * plane + blockIdx.y * cols + at] = sum;
  }
}

// Second pass: grad (+)= sum of the partials, in their order. blockIdx.y selects a or b.
static __global__ void JoinColumnsKernel(const float* partials, std::int64_t cols,
                                         std::int64_t splits, void* grad_a, void* grad_b,
                                         FtDtype dtype, int accumulate) {
  const std::int64_t col = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  void* const grad = blockIdx.y == 0 ? grad_a : grad_b;
  if (col >= cols || grad == nullptr) return;
  const float* at = partials + blockIdx.y * splits * cols + col;
  float sum = 0.0F;
  for (std::int64_t split = 0; split < splits; ++split) sum += at[split * cols];
  StoreAny(grad, dtype, col, accumulate != 0 ? LoadAny(grad, dtype, col) + sum : sum);
}

// grad_a[cols], grad_b[cols] (+)= sums of the term over `rows`. grad_b may be NULL.
template <class Term>
void SumColumns(FtQueue* queue, CudaCheck& check, const Term& term, std::int64_t rows,
                std::int64_t cols, void* grad_a, void* grad_b, FtDtype dtype, int accumulate) {
  if (!check.ok() || cols == 0) return;
  const unsigned blocks = Blocks(cols, kColumnBlock);
  // Splits depend on the shape alone, so that every device computes the same sums.
  std::int64_t splits = kColumnSplits / blocks;
  const std::int64_t room = kWorkspaceBytes / (2 * cols * std::int64_t{sizeof(float)});
  for (const std::int64_t most : {(rows + 31) / 32, room, std::int64_t{65535}}) {
    splits = splits < most ? splits : most;
  }
  splits = splits < 1 ? 1 : splits;
  const std::int64_t rows_per_split = (rows + splits - 1) / splits;
  auto* const partials =
      reinterpret_cast<float*>(check.Workspace(2 * splits * cols * std::int64_t{sizeof(float)}));
  if (partials == nullptr) return;
  FT_LAUNCH(SumColumnsKernel<Term>, dim3(blocks, static_cast<unsigned>(splits)),
            dim3(kWarp, kColumnRows), 0, StreamOf(queue), term, rows, cols, rows_per_split,
            partials);
  FT_LAUNCH(JoinColumnsKernel, dim3(Blocks(cols, kBlock), 2), dim3(kBlock), 0, StreamOf(queue),
            partials, cols, splits, grad_a, grad_b, dtype, accumulate);
}

}  // namespace foretrain
