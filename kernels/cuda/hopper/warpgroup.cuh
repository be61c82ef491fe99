// Instructions of compute capability 9.0 that other GPUs lack, earlier or later: products of a
// warpgroup (128 threads) with operands in shared memory, bulk copies of boxes of a tensor, and the
// mbarriers that they complete. PTX ISA: "wgmma", "cp.async.bulk.tensor", "mbarrier". Files that
// include this are compiled for architecture 90a alone.
//
// Operands lie in shared memory in panels of rows of 128 bytes, 64 values, with 128-byte swizzle:
// 16-byte word w of row r lies at word w ^ (r % 8). Panels are aligned to 1,024 bytes.
//
//   K-major ("deep"): rows of the operand             MN-major ("flat"): rows of depth
//       depth 0 ........ 63                              row 0 .......... 63
//   row 0  [ 128 bytes     ]                        depth 0  [ 128 bytes     ]
//   row 1  [               ]  any number of rows    depth 1  [               ]  64 of depth;
//   further
//   ...                                             ...                         rows in panels
//   behind
//
// A product takes 16 of depth: 32 bytes along a deep panel's rows, 16 rows of a flat one.
#pragma once

#include "kernels/cuda/hopper/tensor_map.h"
#include "kernels/cuda/own/kernel.cuh"

namespace foretrain {

constexpr int kWarpgroup = 128;  // threads
constexpr int kPanelRow = 64;    // values
constexpr int kPanelRowBytes = 128;
constexpr int kPanelAtom = 1024;                         // bytes of eight rows
constexpr int kPanelBytes = kPanelRow * kPanelRowBytes;  // of 64 rows

FT_DEVICE unsigned SharedAddressOf(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

// ---- mbarriers: a phase ends when all arrivals and bytes have come

FT_DEVICE void InitBarrier(std::uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedAddressOf(barrier)),
               "r"(arrivals)
               : "memory");
}
// Makes this thread's initializations visible to other threads, after a barrier, and to copies.
FT_DEVICE void FenceBarrierInit() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
FT_DEVICE void Arrive(std::uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SharedAddressOf(barrier))
               : "memory");
}
FT_DEVICE void ArriveAndExpect(std::uint64_t* barrier, int bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SharedAddressOf(barrier)),
      "r"(bytes)
      : "memory");
}
// Waits for the end of the phase of this parity. The phase before a barrier's first has parity 1.
FT_DEVICE void AwaitPhase(std::uint64_t* barrier, unsigned parity) {
  unsigned is_over;
  do {
    asm volatile(
        "{\n.reg .pred %%p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 %%p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, %%p;\n}"
        : "=r"(is_over)
        : "r"(SharedAddressOf(barrier)), "r"(parity)
        : "memory");
  } while (is_over == 0);
}

// ---- bulk copies

// Starts the copy of the box at `x` (innermost), y, z of a tensor. Its bytes count at `barrier`;
// what lies outside the tensor becomes 0 and counts too.
FT_DEVICE void CopyBox(const TensorMap& map, int x, int y, int z, void* to,
                       std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(SharedAddressOf(to)),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(SharedAddressOf(barrier))
      : "memory");
}

// Orders this thread's ordinary writes to shared memory before later reads by products, of other
// threads too after a barrier.
FT_DEVICE void FenceSharedWrites() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Barrier `kNumber`, from 1 on, of kThreads threads of the block.
template <int kNumber, int kThreads>
FT_DEVICE void SyncThreads() {
  asm volatile("bar.sync %0, %1;" ::"n"(kNumber), "n"(kThreads) : "memory");
}

// ---- registers: all threads of a warpgroup give up or receive some

template <int kCount>
FT_DEVICE void LowerRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
FT_DEVICE void RaiseRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

// ---- products

// Descriptor of an operand that starts at `address`: rows of 128 bytes with 128-byte swizzle, eight
// of them in an atom. Atoms follow each other. `panel_bytes`: from 64 rows of a flat operand to the
// next 64; deep operands ignore it.
FT_DEVICE std::uint64_t Descriptor(unsigned address, unsigned panel_bytes) {
  constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62;
  constexpr std::uint64_t kStride = std::uint64_t{kPanelAtom >> 4} << 32;
  return kSwizzle128 | kStride | std::uint64_t{panel_bytes >> 4} << 16 | (address & 0x3ffffU) >> 4;
}
// Bytes from one 16 of depth to the next.
template <bool kDeep>
constexpr unsigned kDepthStep = kDeep ? 32 : 2 * kPanelAtom;

// Before the first product, and after sums or operands in registers have changed.
FT_DEVICE void FenceRegisters() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
FT_DEVICE void CommitProducts() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until at most kLeft committed groups are pending. Sums of pending ones must not be read,
// nor their operands be changed.
template <int kLeft>
FT_DEVICE void AwaitProducts() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}

// Registers of sums as operands of the instruction: names and constraints.
#define FT_NAMES_32                                                                            \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define FT_NAMES_64                                                                              \
  FT_NAMES_32                                                                                    \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, " \
  "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define FT_NAMES_128                                                                             \
  FT_NAMES_64                                                                                    \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, " \
  "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, "   \
  "%100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, "   \
  "%115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define FT_SUMS_4(i) "+f"(sums[i]), "+f"(sums[(i) + 1]), "+f"(sums[(i) + 2]), "+f"(sums[(i) + 3])
#define FT_SUMS_16(i) FT_SUMS_4(i), FT_SUMS_4((i) + 4), FT_SUMS_4((i) + 8), FT_SUMS_4((i) + 12)
#define FT_SUMS_32(i) FT_SUMS_16(i), FT_SUMS_16((i) + 16)
#define FT_SUMS_64(i) FT_SUMS_32(i), FT_SUMS_32((i) + 32)
#define FT_SUMS_128(i) FT_SUMS_64(i), FT_SUMS_64((i) + 64)

// sums += a b, a and b in shared memory. The registers of sums are operands 0 to COUNT - 1.
#define FT_MULTIPLY_SHARED(COLS, TYPE, COUNT, A, B, FLAT_A, FLAT_B)                            \
  asm volatile(                                                                                \
      "{\n.reg .pred %%p;\nsetp.ne.b32 %%p, 1, 0;\n"                                           \
      "wgmma.mma_async.sync.aligned.m64n" #COLS "k16.f32." TYPE "." TYPE " {" FT_NAMES_##COUNT \
      "}, %" #A ", %" #B ", %%p, 1, 1, %" #FLAT_A ", %" #FLAT_B ";\n}"                         \
      : FT_SUMS_##COUNT(0)                                                                     \
      : "l"(a), "l"(b), "n"(kFlatA), "n"(kFlatB))

// sums[64, kSums * 2] += a[64, 16] b[16, kSums * 2] by a warpgroup, started asynchronously. Lane
// 4 g + t of warp w has sums i of row 16 w + g + 8 (i / 2 % 2), column 8 (i / 4) + 2 t + i % 2.
template <class T, bool kDeepA, bool kDeepB, int kSums>
FT_DEVICE void MultiplyShared(std::uint64_t a, std::uint64_t b, float (&sums)[kSums]) {
  constexpr int kFlatA = kDeepA ? 0 : 1, kFlatB = kDeepB ? 0 : 1;
  static_assert(kSums == 128);
  if constexpr (T::kIsBf16) {
    FT_MULTIPLY_SHARED(256, "bf16", 128, 128, 129, 130, 131);
  } else {
    FT_MULTIPLY_SHARED(256, "f16", 128, 128, 129, 130, 131);
  }
}

}  // namespace foretrain
