// Quantizes tensors to 8 bits with block scales (DeepSeek-AI 2024, s. 3.3.2). A scale covers 128
// values of a row, 128 of a column, or a tile of 128 x 128. A block of threads handles one such
// square.
#include "kernels/cuda/device/entries.h"
#include "kernels/cuda/own/fp8.cuh"

namespace foretrain {
namespace {

constexpr int kSide = FT_SCALE_SIDE;
constexpr int kWarps = kBlock / kWarp;
constexpr int kHalves = kBlock / kSide;  // threads that share a column
static_assert(kBlock % kSide == 0 && kBlock % kWarp == 0);

// The square of a block.
struct Square {
  std::int64_t row, col;  // position of its first element
  int rows, cols;         // that lie inside the matrix
};
FT_DEVICE Square SquareOf(const FtQuantizeTensor& g) {
  const std::int64_t row = std::int64_t{blockIdx.y} * kSide, col = std::int64_t{blockIdx.x} * kSide;
  const auto least = [](std::int64_t left) {
    return left < kSide ? static_cast<int>(left) : kSide;
  };
  return {row, col, least(g.rows - row), least(g.cols - col)};
}

// Element of x, dequantized if x is 8-bit itself (a change of scaling direction).
FT_DEVICE float NumberAt(const FtQuantizeTensor& g, std::int64_t row, std::int64_t col) {
  const float x = LoadOperand(g.x, g.dtype, row * g.cols + col);
  const CodeScales scales{g.x_scale, g.x_scaling, g.cols, 0};
  return scales.at != nullptr ? x * scales.Of(row, col) : x;
}

// Maxima of |x| per row, per column, or over the square. All threads call them.
using Sizes = float[kSide];
FT_DEVICE void LargestOfRows(const FtQuantizeTensor& g, const Square& at, Sizes& most) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll 1
  for (int r = static_cast<int>(threadIdx.x) / kWarp; r < kSide; r += kWarps) {
    float size = 0.0F;
    for (int c = lane; r < at.rows && c < at.cols; c += kWarp) {
      size = Most{}(size, SizeOf(NumberAt(g, at.row + r, at.col + c)));
    }
    size = JoinWarp(size, Most{});
    if (lane == 0) most[r] = size;
  }
}
FT_DEVICE void LargestOfColumns(const FtQuantizeTensor& g, const Square& at, Sizes& most) {
  __shared__ float of_halves[kHalves][kSide];
  const int c = static_cast<int>(threadIdx.x) % kSide, half = static_cast<int>(threadIdx.x) / kSide;
  float size = 0.0F;
  for (int r = half; r < at.rows && c < at.cols; r += kHalves) {
    size = Most{}(size, SizeOf(NumberAt(g, at.row + r, at.col + c)));
  }
  of_halves[half][c] = size;
  __syncthreads();
  if (half != 0) return;
  for (int h = 1; h < kHalves; ++h) size = Most{}(size, of_halves[h][c]);
  most[c] = size;
}
FT_DEVICE void LargestOfAll(const FtQuantizeTensor& g, const Square& at, Sizes& most) {
  float size = 0.0F;
  for (int i = static_cast<int>(threadIdx.x); i < kSide * kSide; i += kBlock) {
    const int r = i / kSide, c = i % kSide;
    if (r < at.rows && c < at.cols) {
      size = Most{}(size, SizeOf(NumberAt(g, at.row + r, at.col + c)));
    }
  }
  const float all = JoinBlock(size, 0.0F, Most{});
  if (threadIdx.x == 0) most[0] = all;
}

// Reads the square twice, once for the maxima and once for the codes. The second read hits L1 or
// L2.
__global__ void BlocksKernel(FtQuantizeTensor g) {
  __shared__ Sizes scales;
  const Square at = SquareOf(g);
  if (g.scaling == FT_SCALE_ROWS) LargestOfRows(g, at, scales);
  if (g.scaling == FT_SCALE_COLUMNS) LargestOfColumns(g, at, scales);
  if (g.scaling == FT_SCALE_TILES) LargestOfAll(g, at, scales);
  __syncthreads();
  const int own = static_cast<int>(threadIdx.x);
  const int most = g.scaling == FT_SCALE_ROWS      ? at.rows
                   : g.scaling == FT_SCALE_COLUMNS ? at.cols
                                                   : 1;
  if (own < most) {
    scales[own] /= LargestCode(g.format);
    const std::int64_t row = at.row + (g.scaling == FT_SCALE_ROWS ? own : 0);
    const std::int64_t col = at.col + (g.scaling == FT_SCALE_COLUMNS ? own : 0);
    g.scale[ScalePlace(g.scaling, g.cols, row, col)] = scales[own];
  }
  __syncthreads();
  auto* const out = static_cast<std::uint8_t*>(g.out);
#pragma unroll 1
  for (int i = own; out != nullptr && i < kSide * kSide; i += kBlock) {
    const int r = i / kSide, c = i % kSide;
    if (r >= at.rows || c >= at.cols) continue;
    const int which = g.scaling == FT_SCALE_ROWS ? r : g.scaling == FT_SCALE_COLUMNS ? c : 0;
    const float x = NumberAt(g, at.row + r, at.col + c) * InverseOf(scales[which]);
    out[(at.row + r) * g.cols + at.col + c] = CodeOf(g.format, x);
  }
}

constexpr std::int64_t kMaxSquares = 65535;  // limit of the grid's y dimension

}  // namespace

FtStatus QuantizeBlocks(FtQueue* queue, CudaCheck& check, const FtQuantizeTensor& g) {
  check.AtMost("rows", g.rows, kMaxSquares * kSide);
  if (!check.ok() || g.rows * g.cols == 0) return check.status();
  FT_LAUNCH(BlocksKernel, dim3(Blocks(g.cols, kSide), Blocks(g.rows, kSide)), dim3(kBlock), 0,
            StreamOf(queue), g);
  return check.Launched();
}

}  // namespace foretrain
