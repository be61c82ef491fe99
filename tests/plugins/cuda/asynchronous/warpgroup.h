// wgmma: products of a warpgroup with operands in shared memory, by the PTX ISA, "Asynchronous
// Warpgroup Level Matrix Instructions".
//
// In forward order a product is computed when it is issued. In the other orders it is computed, and
// its operands are read, when its group is waited for. Until then its sums are signalling NaNs: the
// numbers of results to come. Copies of a register keep the number, and the wait replaces it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tests/plugins/simt/simt.h"

namespace foretrain::ptx {

using simt::Thread;

constexpr unsigned kMaxSums = 128;  // registers of sums of n = 256

// Operands of one instruction. `a` are registers if a_in_registers, else its descriptor is read.
struct WarpgroupProduct {
  unsigned cols = 0;  // n
  bool is_bf16 = false, a_in_registers = false, a_transposed = false, b_transposed = false;
  bool adds = true;  // scale-d
  std::array<std::uint32_t, 4> a{};
  std::uint64_t a_descriptor = 0, b_descriptor = 0;
};

// A product that a thread has issued; its results keep their places until nothing needs them.
struct IssuedProduct {
  WarpgroupProduct product;
  std::array<std::array<std::uint32_t, 4>, 4> a;  // registers of the four lanes of the row
  std::array<std::uint32_t, kMaxSums> sums;       // before, then after
  std::uint32_t first_number = 0;                 // of its results
  unsigned group = 0;
};

struct WarpgroupThread {
  std::vector<IssuedProduct> issued;
  unsigned groups = 0;                    // committed
  unsigned uncommitted = 0, pending = 0;  // products
  bool is_fenced = false;                 // wgmma.fence since the last wait
  std::uint32_t next_number = 1;
};

void WarpgroupFence(Thread& t, int site);
void WarpgroupCommit(Thread& t);
// `sums`: the registers of the thread that may hold sums; `numbers`: those of this product.
void WarpgroupMultiply(Thread& t, int site, WarpgroupProduct product, std::uint32_t* sums,
                       const std::uint16_t* numbers);
// Waits until at most `left` groups are pending.
void WarpgroupWait(Thread& t, int site, unsigned left, std::uint32_t* sums, unsigned count);

}  // namespace foretrain::ptx
