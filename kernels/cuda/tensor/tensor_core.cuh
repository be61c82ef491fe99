// Products on tensor cores: warp-wide products of 16-bit tiles in shared memory with fp32 sums, and
// asynchronous copies of such tiles. tests/plugins/shim/host_tensor_core.h executes them on the
// host. They need compute capability 8.0. If the compiler targets an earlier one, the kernels trap,
// and their entries do not choose them.
//
// Rows of a tile lie PaddedRow<kCols> values apart. If kCols is a multiple of 16, this is an odd
// number of 16-byte words. The eight rows of a matrix then fall on different banks.
//
// A fragment is the part of a tile that one lane holds. With g = lane / 4 and t = lane % 4, value i
// of sums [16 rows, 8 columns] lies in row g + 8 (i / 2), column 2 t + i % 2 (PTX ISA,
// mma.m16n8k16).
#pragma once

#include "kernels/cuda/own/kernel.cuh"

namespace foretrain {

constexpr int kFragmentRows = 16;   // rows of a and of sums
constexpr int kFragmentCols = 8;    // columns of sums
constexpr int kFragmentDepth = 16;  // depth of one product

template <int kCols>
inline constexpr int PaddedRow = kCols + kOctet;

// ---- instructions

#if !defined(FT_HOST_SHIM)
FT_DEVICE unsigned SharedAddress(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}
#endif

// Loads four 8 x 8 matrices; lane 8 i + r supplies the address of row r of matrix i. From each, a
// lane receives values 2 t and 2 t + 1 of row g.
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

// The same, but values 2 t and 2 t + 1 of column g.
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

// c += a b, with a [16, 16] and b [16, 8].
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

// Two values in a word, the first in its low half. Each is rounded to nearest, ties to even.
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

// 2^x. On a GPU (ex2.approx) it is within 2 units in the last place, and results below 2^-126 are
// 0.
FT_DEVICE float PowerOf2(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

// ---- asynchronous copies of 16 or 4 bytes to shared memory; zeros if `is_there` is false
// All copies before CommitCopies form a group. AwaitCopies<n> waits until at most n groups of this
// thread are pending. Other threads' copies are visible only after a barrier.

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

// ---- row of a tile that a lane supplies to LoadMatrices, and its first column

struct MatrixRow {
  int row, col;
};
// 16 rows and 16 columns as one fragment of a stored by rows. With LoadMatricesTransposed, as two
// fragments of b stored by rows.
constexpr MatrixRow DownFirst(int lane) { return {lane % 16, lane / 16 * 8}; }
// 16 rows and 16 columns as two fragments of b stored by columns. With LoadMatricesTransposed, as
// one fragment of a stored by columns.
constexpr MatrixRow AcrossFirst(int lane) { return {lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8}; }

// ---- warp products

// sums[kRowTiles * 16, kColTiles * 8] += a[rows, kDepth] b[cols, kDepth]^T, both in shared memory.
// Each load of b serves kRowTiles products.
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

// Packs sums [16, 8] as left fragments of a product; two neighbours form one. The register layouts
// match, so no data crosses lanes.
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

// sums[kRowTiles * 16, kColTiles * 8] += rows[., kSteps * 16] b, with b [kSteps * 16][columns] in
// shared memory.
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

// Copies a tile of `from` to shared memory as [kTileRows][PaddedRow<kCols>]. Rows are `stride`
// values apart; `rows` of them and their first `cols` columns exist, the rest becomes 0. `from` and
// its rows must be 16-byte aligned and cols a multiple of 8. The caller commits the group.
template <int kTileRows, int kCols, int kThreads, class T>
FT_DEVICE void CopyTile(const T* from, std::int64_t stride, int rows, int cols, T* to) {
  constexpr int kOctets = kCols / kOctet;
  // Not unrolled: the compiler would keep the addresses in registers between tiles.
#pragma unroll 1
  for (int item = static_cast<int>(threadIdx.x); item < kTileRows * kOctets; item += kThreads) {
    const int r = item / kOctets, c = item % kOctets * kOctet;
    const bool is_there = r < rows && c < cols;
    CopyAsync(to + r * PaddedRow<kCols> + c, is_there ? from + r * stride + c : from, is_there);
  }
}

// Rounds the warp's sums and writes them to `rows` rows of `to`, first `cols` columns, in 16-byte
// words. They pass through kRowTiles * 16 rows of the warp's own shared memory.
template <class T, int kRowTiles, int kColTiles>
FT_DEVICE void StoreRows(const float (&sums)[kRowTiles][kColTiles][4], T* own, T* to,
                         std::int64_t stride, int rows, int cols) {
  constexpr int kCols = kColTiles * kFragmentCols, kOctets = kCols / kOctet;
  const int g = LaneOf() / 4, t = LaneOf() % 4;
  __syncwarp();  // no lane reads the old contents any more
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

// sums += the values at `from`, in the layout of StoreRows.
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
