// Products on tensor cores: what one warp multiplies of tiles of 16-bit numbers in shared memory,
// with sums in fp32, and asynchronous copies of such tiles. Executed on the host by
// host_tensor_core.h. Compute capability 8.0 and later; where the compiler makes code for an
// earlier one the kernels trap, and their entries do not choose them.
//
// Rows of a tile lie PaddedRow<kCols> numbers apart: an odd number of 16-byte words where kCols is
// a multiple of 16, so that the eight rows of a matrix fall on different banks.
//
// A fragment is the part of a tile that a lane holds. With g = lane / 4 and t = lane % 4, number i
// of sums [16 rows, 8 columns] lies in row g + 8 (i / 2), column 2 t + i % 2 (PTX ISA,
// mma.m16n8k16).
#pragma once

#include "kernels/cuda/kernel.cuh"

#ifdef FT_HOST_SHIM
#include "kernels/cuda/host_tensor_core.h"
#endif

namespace foretrain {

constexpr int kFragmentRows = 16;   // of a and of sums
constexpr int kFragmentCols = 8;    // of sums
constexpr int kFragmentDepth = 16;  // of a product

template <int kCols>
inline constexpr int PaddedRow = kCols + kOctet;

// ---- instructions

#if !defined(FT_HOST_SHIM)
FT_DEVICE unsigned SharedAddress(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}
#endif

// Four 8 x 8 matrices, of which lane 8 i + r names row r of matrix i. A lane gets of each the
// numbers 2 t and 2 t + 1 of row g.
FT_DEVICE void LoadMatrices(const void* row, std::uint32_t (&to)[4]) {
#ifdef FT_HOST_SHIM
  shim::LoadMatrices(row, false, to);
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(SharedAddress(row))
               : "memory");
#endif
}

// The same, but numbers 2 t and 2 t + 1 of column g.
FT_DEVICE void LoadMatricesTransposed(const void* row, std::uint32_t (&to)[4]) {
#ifdef FT_HOST_SHIM
  shim::LoadMatrices(row, true, to);
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(SharedAddress(row))
               : "memory");
#endif
}

// c += a b, of 16 x 16 and 16 x 8 numbers.
template <class T>
FT_DEVICE void MultiplyTile(const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
                            float (&c)[4]) {
#ifdef FT_HOST_SHIM
  shim::MultiplyTile(
      a, {b0, b1}, [](std::uint16_t bits) { return Widen(T{bits}); }, c);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (T::kIsBf16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
#else
  __trap();
#endif
}

// Two numbers in a word, the first in its low half; each rounded to nearest, halves to even.
template <class T>
FT_DEVICE std::uint32_t PackPair(float first, float second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  std::uint32_t word;
  if constexpr (T::kIsBf16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  }
  return word;
#else
  return Narrow<T>(first).bits | static_cast<std::uint32_t>(Narrow<T>(second).bits) << 16;
#endif
}

template <class T>
FT_DEVICE void UnpackPair(std::uint32_t word, float& first, float& second) {
  first = Widen(T{static_cast<std::uint16_t>(word & 0xffffU)});
  second = Widen(T{static_cast<std::uint16_t>(word >> 16)});
}

// 2^x. On a GPU within 2 units of fp32 (ex2.approx), and what is below 2^-126 is 0.
FT_DEVICE float PowerOf2(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

// ---- asynchronous copies of 16 and of 4 bytes to shared memory; zeros where `is_there` is false.
// Copies up to CommitCopies are a group; AwaitCopies<n> waits until at most n groups of this thread
// are under way. What other threads copied needs a barrier behind it.

FT_DEVICE void CopyAsync(void* shared, const void* from, bool is_there) {
#ifdef FT_HOST_SHIM
  shim::CopyAsync(shared, from, 16, is_there);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(shared)),
               "l"(from), "r"(is_there ? 16 : 0)
               : "memory");
#else
  __trap();
#endif
}
FT_DEVICE void CopyWordAsync(void* shared, const void* from, bool is_there) {
#ifdef FT_HOST_SHIM
  shim::CopyAsync(shared, from, 4, is_there);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(SharedAddress(shared)),
               "l"(from), "r"(is_there ? 4 : 0)
               : "memory");
#else
  __trap();
#endif
}
FT_DEVICE void CommitCopies() {
#ifdef FT_HOST_SHIM
  shim::CommitCopies();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int kLeft>
FT_DEVICE void AwaitCopies() {
#ifdef FT_HOST_SHIM
  shim::AwaitCopies(kLeft);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
#endif
}

// ---- which row of a tile a lane names for LoadMatrices, and from which column on

struct MatrixRow {
  int row, col;
};
// 16 rows and 16 columns as a fragment of a stored by rows, or with LoadMatricesTransposed of two
// of b stored by rows.
constexpr MatrixRow DownFirst(int lane) { return {lane % 16, lane / 16 * 8}; }
// 16 rows and 16 columns as two fragments of b stored by columns, or with LoadMatricesTransposed as
// one of a stored by columns.
constexpr MatrixRow AcrossFirst(int lane) { return {lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8}; }

FT_DEVICE int LaneOf() { return static_cast<int>(threadIdx.x) % kWarp; }

// ---- products of a warp

// sums[kRowTiles * 16, kColTiles * 8] += a[rows, kDepth] b[cols, kDepth]^T, both in shared memory.
template <int kDepth, class T, int kRowTiles, int kColTiles>
FT_DEVICE void MultiplyRows(const T* a, const T* b, float (&sums)[kRowTiles][kColTiles][4]) {
  static_assert(kDepth % kFragmentDepth == 0 && kColTiles % 2 == 0);
  constexpr int kRow = PaddedRow<kDepth>;
  const MatrixRow of_a = DownFirst(LaneOf()), of_b = AcrossFirst(LaneOf());
  a += of_a.row * kRow + of_a.col;
  b += of_b.row * kRow + of_b.col;
#pragma unroll
  for (int k = 0; k < kDepth; k += kFragmentDepth) {
    std::uint32_t rows[kRowTiles][4];
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) LoadMatrices(a + i * kFragmentRows * kRow + k, rows[i]);
#pragma unroll
    for (int j = 0; j < kColTiles; j += 2) {
      std::uint32_t cols[4];
      LoadMatrices(b + j * kFragmentCols * kRow + k, cols);
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        MultiplyTile<T>(rows[i], cols[0], cols[1], sums[i][j]);
        MultiplyTile<T>(rows[i], cols[2], cols[3], sums[i][j + 1]);
      }
    }
  }
}

// Sums [16, 8] side by side as fragments of the left side of a product: two make one.
template <class T, int kRowTiles, int kColTiles>
FT_DEVICE void PackRows(const float (&sums)[kRowTiles][kColTiles][4],
                        std::uint32_t (&rows)[kRowTiles][kColTiles / 2][4]) {
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int j = 0; j < kColTiles; ++j) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        rows[i][j / 2][j % 2 * 2 + h] = PackPair<T>(sums[i][j][2 * h], sums[i][j][2 * h + 1]);
      }
    }
  }
}

// sums[kRowTiles * 16, kColTiles * 8] += rows[., kSteps * 16] b, b [kSteps * 16][columns] in shared
// memory.
template <class T, int kRowTiles, int kSteps, int kColTiles>
FT_DEVICE void MultiplyPacked(const std::uint32_t (&rows)[kRowTiles][kSteps][4], const T* b,
                              float (&sums)[kRowTiles][kColTiles][4]) {
  static_assert(kColTiles % 2 == 0);
  constexpr int kRow = PaddedRow<kColTiles * kFragmentCols>;
  const MatrixRow of_b = DownFirst(LaneOf());
  b += of_b.row * kRow + of_b.col;
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
#pragma unroll
    for (int j = 0; j < kColTiles; j += 2) {
      std::uint32_t cols[4];
      LoadMatricesTransposed(b + k * kFragmentDepth * kRow + j * kFragmentCols, cols);
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        MultiplyTile<T>(rows[i][k], cols[0], cols[1], sums[i][j]);
        MultiplyTile<T>(rows[i][k], cols[2], cols[3], sums[i][j + 1]);
      }
    }
  }
}

// ---- tiles

// Rows of `from`, `stride` numbers apart, of which `rows` and their first `cols` columns exist, as
// [kTileRows][PaddedRow<kCols>] of shared memory. `from` and rows are aligned to 16 bytes, cols is
// a multiple of 8. One group's part: the caller commits.
template <int kTileRows, int kCols, int kThreads, class T>
FT_DEVICE void CopyTile(const T* from, std::int64_t stride, int rows, int cols, T* to) {
  constexpr int kOctets = kCols / kOctet;
  // Unrolled, the addresses would be kept in registers between tiles.
#pragma unroll 1
  for (int item = static_cast<int>(threadIdx.x); item < kTileRows * kOctets; item += kThreads) {
    const int r = item / kOctets, c = item % kOctets * kOctet;
    const bool is_there = r < rows && c < cols;
    CopyAsync(to + r * PaddedRow<kCols> + c, is_there ? from + r * stride + c : from, is_there);
  }
}

// The warp's sums, rounded, to `rows` rows of `to` and their first `cols` columns, in words of 16
// bytes, through kRowTiles * 16 rows of shared memory of its own.
template <class T, int kRowTiles, int kColTiles>
FT_DEVICE void StoreRows(const float (&sums)[kRowTiles][kColTiles][4], T* own, T* to,
                         std::int64_t stride, int rows, int cols) {
  constexpr int kCols = kColTiles * kFragmentCols, kOctets = kCols / kOctet;
  const int g = LaneOf() / 4, t = LaneOf() % 4;
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int j = 0; j < kColTiles; ++j) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        T* const at = own + (i * kFragmentRows + h * 8 + g) * PaddedRow<kCols> + j * 8 + 2 * t;
        *reinterpret_cast<std::uint32_t*>(at) =
            PackPair<T>(sums[i][j][2 * h], sums[i][j][2 * h + 1]);
      }
    }
  }
  __syncwarp();
#pragma unroll 1
  for (int item = LaneOf(); item < kRowTiles * kFragmentRows * kOctets; item += kWarp) {
    const int r = item / kOctets, c = item % kOctets * kOctet;
    if (r < rows && c < cols) CopyWords(own + r * PaddedRow<kCols> + c, to + r * stride + c);
  }
}

// sums += the numbers at `from`, laid out as StoreRows does.
template <class T, int kRowTiles, int kColTiles>
FT_DEVICE void AddRows(const T* from, std::int64_t stride, int rows, int cols,
                       float (&sums)[kRowTiles][kColTiles][4]) {
  const int g = LaneOf() / 4, t = LaneOf() % 4;
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int j = 0; j < kColTiles; ++j) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int r = i * kFragmentRows + h * 8 + g, c = j * kFragmentCols + 2 * t;
        if (r >= rows || c >= cols) continue;
        float first, second;
        UnpackPair<T>(*reinterpret_cast<const std::uint32_t*>(from + r * stride + c), first,
                      second);
        sums[i][j][2 * h] += first;
        sums[i][j][2 * h + 1] += second;
      }
    }
  }
}

}  // namespace foretrain
