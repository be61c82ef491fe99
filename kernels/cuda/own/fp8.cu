// Quantizes tensors to 8 bits with one scale each, as stored and transposed. 8-bit products need
// both operands with the depth along rows (library_products.cu).
#include "kernels/cuda/own/fp8.cuh"

#include "kernels/cuda/device/entries.h"

namespace foretrain {
namespace {

// Depends on the size alone, so results do not depend on the device.
constexpr unsigned kSumBlocks = 1024;
constexpr int kTile = 64;  // rows and columns of a transposed tile
constexpr int kWord = 4;   // codes that a thread moves at once

// First pass: one partial maximum of |x| per block.
__global__ void LargestKernel(const void* x, FtDtype dtype, std::int64_t elements,
                              float* partials) {
  const std::int64_t step = std::int64_t{gridDim.x} * kBlock * kOctet;
  float most = 0.0F;
  for (std::int64_t at = (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) * kOctet; at < elements;
       at += step) {
    float v[kOctet];
    LoadAnyOctet(x, dtype, at, elements - at, v);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) most = Most{}(most, SizeOf(v[i]));
  }
  const float all = JoinBlock(most, 0.0F, Most{});
  if (threadIdx.x == 0) partials[blockIdx.x] = all;
}

// Second pass: one block joins the partials and derives the scale.
__global__ void ScaleKernel(const float* partials, int count, FtQuantizeTensor g) {
  float most = 0.0F;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kBlock) {
    most = Most{}(most, partials[i]);
  }
  const float all = JoinBlock(most, 0.0F, Most{});
  if (threadIdx.x != 0) return;
  if (g.absmax != nullptr) *g.absmax = all;
  if (g.keep_scale == 0) *g.scale = all / LargestCode(g.format);
}

// ---- a tile of codes in shared memory, written as stored and transposed. One word of padding per
// row avoids bank conflicts when columns are read.

using Codes = std::uint8_t[kTile][kTile + kWord];

struct TilePlace {
  std::int64_t row, col;  // position of the tile's first code
  int rows, cols;         // that lie inside the matrix
};
FT_DEVICE TilePlace PlaceOfTile(std::int64_t rows, std::int64_t cols) {
  const std::int64_t row = std::int64_t{blockIdx.y} * kTile, col = std::int64_t{blockIdx.x} * kTile;
  const auto least = [](std::int64_t left) {
    return left < kTile ? static_cast<int>(left) : kTile;
  };
  return {row, col, least(rows - row), least(cols - col)};
}

// Writes a word of codes, of which `left` exist.
FT_DEVICE void StoreWord(std::uint8_t* to, std::uint32_t word, int left) {
  if (left >= kWord && IsAlignedTo(to, kWord)) {
    *reinterpret_cast<std::uint32_t*>(to) = word;
    return;
  }
  for (int i = 0; i < kWord && i < left; ++i) to[i] = static_cast<std::uint8_t>(word >> 8 * i);
}

// Transposes four rows of four codes: byte r of word c comes from byte c of word r.
FT_DEVICE void TurnWords(std::uint32_t (&w)[kWord]) {
  const std::uint32_t low01 = __byte_perm(w[0], w[1], 0x5140),
                      high01 = __byte_perm(w[0], w[1], 0x7362);
  const std::uint32_t low23 = __byte_perm(w[2], w[3], 0x5140),
                      high23 = __byte_perm(w[2], w[3], 0x7362);
  w[0] = __byte_perm(low01, low23, 0x5410);
  w[1] = __byte_perm(low01, low23, 0x7632);
  w[2] = __byte_perm(high01, high23, 0x5410);
  w[3] = __byte_perm(high01, high23, 0x7632);
}

// Writes the tile transposed into to[cols, rows]: each thread four columns of four rows. All
// threads call it, after the tile's barrier.
FT_DEVICE void StoreTurned(const Codes& tile, const TilePlace& at, std::int64_t rows,
                           std::uint8_t* to) {
  constexpr int kWords = kTile / kWord;
  static_assert(kWords * kWords == kBlock);
  const int c = static_cast<int>(threadIdx.x) / kWords * kWord;
  const int r = static_cast<int>(threadIdx.x) % kWords * kWord;
  std::uint32_t words[kWord];
#pragma unroll
  for (int i = 0; i < kWord; ++i) {
    words[i] = *reinterpret_cast<const std::uint32_t*>(&tile[r + i][c]);
  }
  TurnWords(words);
#pragma unroll
  for (int i = 0; i < kWord; ++i) {
    if (c + i < at.cols) {
      StoreWord(to + (at.col + c + i) * rows + at.row + r, words[i], at.rows - r);
    }
  }
}

// One pass: reads x once and writes both orders. The tile is filled only for the transposed copy's
// sake; its codes outside the matrix are 0.
__global__ void CastKernel(FtQuantizeTensor g) {
  alignas(kWord) __shared__ Codes tile;
  constexpr int kOctets = kTile / kOctet;
  const TilePlace at = PlaceOfTile(g.rows, g.cols);
  const float inverse = InverseOf(*g.scale);
  auto* const out = static_cast<std::uint8_t*>(g.out);
#pragma unroll
  for (int item = static_cast<int>(threadIdx.x); item < kTile * kOctets; item += kBlock) {
    const int r = item / kOctets, c = item % kOctets * kOctet;
    const int left = r < at.rows ? at.cols - c : 0;
    const std::int64_t first = (at.row + r) * g.cols + at.col + c;
    float x[kOctet] = {};
    if (left > 0) LoadAnyOctet(g.x, g.dtype, first, left, x);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) x[i] *= inverse;
    const CodeOctet codes = CodesOf(g.format, x);
    auto* const words = reinterpret_cast<std::uint32_t*>(&tile[r][c]);
    words[0] = codes.words[0], words[1] = codes.words[1];
    if (out != nullptr) StoreCodes(out + first, codes, left);
  }
  if (g.transposed == nullptr) return;
  __syncthreads();
  StoreTurned(tile, at, g.rows, static_cast<std::uint8_t*>(g.transposed));
}

// Transposes codes through shared memory, so that both reads and writes are of whole words.
__global__ void TurnKernel(const std::uint8_t* from, std::int64_t stride, std::int64_t rows,
                           std::int64_t cols, std::uint8_t* to) {
  alignas(kWord) __shared__ Codes tile;
  constexpr int kWords = kTile / kWord;
  const TilePlace at = PlaceOfTile(rows, cols);
#pragma unroll
  for (int item = static_cast<int>(threadIdx.x); item < kTile * kWords; item += kBlock) {
    const int r = item / kWords, c = item % kWords * kWord;
    const int left = r < at.rows ? at.cols - c : 0;
    const std::uint8_t* const word = from + (at.row + r) * stride + at.col + c;
    std::uint32_t codes = 0;
    if (left >= kWord && IsAlignedTo(word, kWord)) {
      codes = *reinterpret_cast<const std::uint32_t*>(word);
    } else {
      for (int i = 0; i < kWord && i < left; ++i) codes |= std::uint32_t{word[i]} << 8 * i;
    }
    *reinterpret_cast<std::uint32_t*>(&tile[r][c]) = codes;
  }
  __syncthreads();
  StoreTurned(tile, at, rows, to);
}

constexpr std::int64_t kMaxTiles = 65535;  // limit of the grid's y dimension

FtStatus QuantizeTensor(FtQueue* queue, const FtQuantizeTensor* g) {
  CudaCheck check(queue, FT_KERNEL_QUANTIZE_TENSOR, *g);
  FtDtype dtype = g->dtype;
  if (g->scaling == FT_SCALE_TENSOR) check.Float("dtype", dtype);
  check.AtMost("rows", g->rows, kMaxTiles * kTile);
  if (g->scaling != FT_SCALE_TENSOR) return QuantizeBlocks(queue, check, *g);
  auto* const partials =
      reinterpret_cast<float*>(check.Workspace(kSumBlocks * std::int64_t{sizeof(float)}));
  if (!check.ok()) return check.status();
  const std::int64_t elements = g->rows * g->cols;
  const unsigned wanted = Blocks(elements, kBlock * kOctet);
  const unsigned blocks = wanted < kSumBlocks ? wanted : kSumBlocks;
  if (g->keep_scale == 0 || g->absmax != nullptr) {
    if (blocks > 0) {
      FT_LAUNCH(LargestKernel, dim3(blocks), dim3(kBlock), 0, StreamOf(queue), g->x, g->dtype,
                elements, partials);
    }
    FT_LAUNCH(ScaleKernel, dim3(1), dim3(kBlock), 0, StreamOf(queue), partials,
              static_cast<int>(blocks), *g);
  }
  if (elements > 0 && (g->out != nullptr || g->transposed != nullptr)) {
    FT_LAUNCH(CastKernel, dim3(Blocks(g->cols, kTile), Blocks(g->rows, kTile)), dim3(kBlock), 0,
              StreamOf(queue), *g);
  }
  return check.Launched();
}

}  // namespace

void TurnCodes(FtQueue* queue, const void* from, std::int64_t stride, std::int64_t rows,
               std::int64_t cols, void* to) {
  FT_LAUNCH(TurnKernel, dim3(Blocks(cols, kTile), Blocks(rows, kTile)), dim3(kBlock), 0,
            StreamOf(queue), static_cast<const std::uint8_t*>(from), stride, rows, cols,
            static_cast<std::uint8_t*>(to));
}

void SetCudaQuantizeTensorEntry(FtDeviceApi& api) { api.quantize_tensor = &QuantizeTensor; }

}  // namespace foretrain
