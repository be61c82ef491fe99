#include "kernels/cuda/library/library_scales.cuh"

#include "kernels/cuda/own/fp8.cuh"
#include "kernels/cuda/own/kernel.cuh"

namespace foretrain {
namespace {

constexpr std::int64_t kSide = FT_SCALE_SIDE;
constexpr std::int64_t kRowOfSquares = 4;       // rows of tile scales are padded to multiples of it
constexpr std::uintptr_t kScaleAlignment = 16;  // in bytes; the library's requirement

// The library's layout of scales, in units of rows, or of 128 rows for tile scales.
struct Arrangement {
  std::int64_t first, rows, blocks, stride;  // stride: of the longer side
};
Arrangement ArrangementOf(const BlockScales& s, std::int64_t first, std::int64_t rows) {
  const std::int64_t blocks = ScaleBlocks(s.depth);
  if (!s.AreTiles()) return {first, rows, blocks, rows};
  const std::int64_t stride = (blocks + kRowOfSquares - 1) / kRowOfSquares * kRowOfSquares;
  return {first / kSide, ScaleBlocks(rows), blocks, stride};
}
std::int64_t Count(const BlockScales& s, const Arrangement& a) {
  return s.AreTiles() ? a.rows * a.stride : a.blocks * a.stride;
}

// One scale per thread: finds its row and depth block, then reads it from the stored order.
__global__ void ArrangeScalesKernel(BlockScales s, Arrangement a, std::int64_t count, float* to) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  if (i >= count) return;
  const bool tiles = s.scaling == FT_SCALE_TILES;
  const std::int64_t block = tiles ? i % a.stride : i / a.stride;
  const std::int64_t row = a.first + (tiles ? i / a.stride : i % a.stride);
  if (block >= a.blocks) {  // padding beyond the depth
    to[i] = 0.0F;
    return;
  }
  const std::int64_t of_row = tiles ? row * kSide : row, of_depth = block * kSide;
  to[i] = s.at[s.turned ? ScalePlace(s.scaling, s.rows, of_depth, of_row)
                        : ScalePlace(s.scaling, s.depth, of_row, of_depth)];
}

// True if the scales already lie in the library's order. This holds for columns of a transposed
// matrix, and for tiles whose rows need no padding.
bool LieSo(const BlockScales& s, const Arrangement& a, std::int64_t rows) {
  if (reinterpret_cast<std::uintptr_t>(s.at) % kScaleAlignment != 0 || rows != s.rows) return false;
  return s.AreTiles() ? !s.turned && a.stride == a.blocks : s.turned;
}

}  // namespace

std::int64_t LibraryScaleBytes(const BlockScales& scales, std::int64_t rows) {
  constexpr std::int64_t kUnit = 256;
  const std::int64_t count = Count(scales, ArrangementOf(scales, 0, rows));
  return (count * std::int64_t{sizeof(float)} + kUnit - 1) / kUnit * kUnit;
}

const float* LibraryScales(FtQueue* queue, const BlockScales& scales, std::int64_t first,
                           std::int64_t rows, std::byte* to) {
  const Arrangement a = ArrangementOf(scales, first, rows);
  if (LieSo(scales, a, rows)) return scales.at;
  auto* const out = reinterpret_cast<float*>(to);
  const std::int64_t count = Count(scales, a);
  FT_LAUNCH(ArrangeScalesKernel, dim3(Blocks(count, kBlock)), dim3(kBlock), 0, StreamOf(queue),
            scales, a, count, out);
  return out;
}

}  // namespace foretrain
