// Quantizes tensors to 8 bits with block scales (DeepSeek-AI 2024, s. 3.3.2). A scale covers 128
// values of a row, 128 of a column, or a tile of 128 x 128. A block of threads handles one such
// square.
#include "kernels/cuda/device/entries.h"
#include "kernels/cuda/own/fp8.cuh"

namespace foretrain {
namespace {

constexpr int kSide = FT_SCALE_SIDE;
constexpr int kOctets = kSide / kOctet;  // of a row
constexpr int kRows = kBlock / kOctets;  // that a block's threads read at once
constexpr int kEach = kSide / kRows;     // octets of a thread
static_assert(kBlock % kOctets == 0 && kSide % kRows == 0 && kOctets < kWarp);

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

// A thread's numbers: octet `octet` of the rows row, row + kRows, ...; 0 outside the matrix.
struct Numbers {
  int row, octet;
  float x[kEach][kOctet];
};

// Eight elements of x, dequantized if x is 8-bit itself (a change of scaling direction).
FT_DEVICE void LoadNumbers(const FtQuantizeTensor& g, std::int64_t row, std::int64_t col,
                           std::int64_t left, float (&x)[kOctet]) {
  if (!IsCode(g.dtype)) {
    LoadAnyOctet(g.x, g.dtype, row * g.cols + col, left, x);
    return;
  }
  const CodeScales scales{g.x_scale, g.x_scaling, g.cols, 0};
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    if (i >= left) continue;
    x[i] = LoadOperand(g.x, g.dtype, row * g.cols + col + i);
    if (scales.at != nullptr) x[i] *= scales.Of(row, col + i);
  }
}

FT_DEVICE void LoadSquare(const FtQuantizeTensor& g, const Square& at, Numbers& n) {
  n.row = static_cast<int>(threadIdx.x) / kOctets,
  n.octet = static_cast<int>(threadIdx.x) % kOctets;
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
#pragma unroll
    for (int i = 0; i < kOctet; ++i) n.x[j][i] = 0.0F;
    const int r = n.row + j * kRows, left = at.cols - n.octet * kOctet;
    if (r < at.rows && left > 0) {
      LoadNumbers(g, at.row + r, at.col + n.octet * kOctet, left, n.x[j]);
    }
  }
}

FT_DEVICE float LargestOfOctet(const float (&x)[kOctet]) {
  float size = 0.0F;
#pragma unroll
  for (int i = 0; i < kOctet; ++i) size = Most{}(size, SizeOf(x[i]));
  return size;
}

// Maxima of |x| per row, per column, or over the square. All threads call them.
using Sizes = float[kSide];
FT_DEVICE void LargestOfRows(const Numbers& n, Sizes& most) {
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    float size = LargestOfOctet(n.x[j]);
#pragma unroll
    for (int bits = kOctets / 2; bits > 0; bits /= 2) {
      size = Most{}(size, __shfl_xor_sync(kAllLanes, size, bits));
    }
    if (n.octet == 0) most[n.row + j * kRows] = size;
  }
}
FT_DEVICE void LargestOfColumns(const Numbers& n, Sizes& most) {
  __shared__ float of_rows[kRows][kSide];
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    float size = 0.0F;
#pragma unroll
    for (int j = 0; j < kEach; ++j) size = Most{}(size, SizeOf(n.x[j][i]));
    of_rows[n.row][n.octet * kOctet + i] = size;
  }
  __syncthreads();
  const int c = static_cast<int>(threadIdx.x);
  if (c >= kSide) return;
  float size = 0.0F;
  for (int r = 0; r < kRows; ++r) size = Most{}(size, of_rows[r][c]);
  most[c] = size;
}
FT_DEVICE void LargestOfAll(const Numbers& n, Sizes& most) {
  float size = 0.0F;
#pragma unroll
  for (int j = 0; j < kEach; ++j) size = Most{}(size, LargestOfOctet(n.x[j]));
  const float all = JoinBlock(size, 0.0F, Most{});
  if (threadIdx.x == 0) most[0] = all;
}

// Reads the square once and keeps it in registers. `sizes` becomes the inverse scales.
__global__ void BlocksKernel(FtQuantizeTensor g) {
  __shared__ Sizes sizes;
  const Square at = SquareOf(g);
  Numbers n;
  LoadSquare(g, at, n);
  if (g.scaling == FT_SCALE_ROWS) LargestOfRows(n, sizes);
  if (g.scaling == FT_SCALE_COLUMNS) LargestOfColumns(n, sizes);
  if (g.scaling == FT_SCALE_TILES) LargestOfAll(n, sizes);
  __syncthreads();
  const int own = static_cast<int>(threadIdx.x);
  const int count = g.scaling == FT_SCALE_TILES ? 1 : kSide;
  if (own < count) {
    const float scale = sizes[own] / LargestCode(g.format);
    sizes[own] = InverseOf(scale);
    const int row = g.scaling == FT_SCALE_ROWS ? own : 0;
    const int col = g.scaling == FT_SCALE_COLUMNS ? own : 0;
    if (row < at.rows && col < at.cols) {
      g.scale[ScalePlace(g.scaling, g.cols, at.row + row, at.col + col)] = scale;
    }
  }
  __syncthreads();
  auto* const out = static_cast<std::uint8_t*>(g.out);
  if (out == nullptr) return;
  const int c = n.octet * kOctet;
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const int r = n.row + j * kRows;
    if (r >= at.rows) continue;
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      const int which = g.scaling == FT_SCALE_ROWS ? r : g.scaling == FT_SCALE_COLUMNS ? c + i : 0;
      n.x[j][i] *= sizes[which];
    }
    StoreCodes(out + (at.row + r) * g.cols + at.col + c, CodesOf(g.format, n.x[j]), at.cols - c);
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
