#include "tests/plugins/cuda/asynchronous/warpgroup.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "tests/plugins/cuda/asynchronous/block_state.h"
#include "tests/plugins/cuda/register_instructions.h"

namespace foretrain::ptx {
namespace {

using simt::Exchange;
using simt::LaneWords;
using simt::WarpInstruction;

constexpr unsigned kRows = 64, kDepth = 16, kWarpsOfGroup = 4;

// An operand in shared memory: a matrix descriptor and whether its depth runs across the rows of
// 128 bytes ("MN-major"). Tables "Major-ness supported by Strides" and "Canonical Layouts".
//
//   depth along rows   a row of the operand is 64 elements of 128 bytes; 8 rows form an atom, and
//                      `stride` lies between atoms
//   depth across rows  a row has 64 rows of the operand at one depth; 8 depths form an atom,
//                      `stride` lies between atoms along the depth and `leading` between 64 rows
class Operand {
 public:
  Operand(Thread& t, std::uint64_t descriptor, bool transposed)
      : t_(t),
        transposed_(transposed),
        start_((descriptor & 0x3fffU) << 4),
        leading_((descriptor >> 16 & 0x3fffU) << 4),
        stride_((descriptor >> 32 & 0x3fffU) << 4) {
    constexpr std::uint64_t kSwizzle128 = 1;
    if (descriptor >> 62 != kSwizzle128) {
      Fail(t, Fault::kTrap, "a matrix descriptor without 128-byte swizzle");
    }
    if ((descriptor >> 49 & 7U) != 0 || (start_ >> 7 & 7U) != 0) {
      Fail(t, Fault::kMisaligned, "a matrix descriptor whose atoms are not aligned to 1,024 bytes");
    }
  }

  // Address of an element, after the swizzle.
  std::uint64_t At(unsigned row, unsigned depth) const {
    const std::uint64_t at = start_ + (transposed_ ? row / 64 * leading_ + row % 64 * 2 +
                                                         depth / 8 * stride_ + depth % 8 * 128
                                                   : row / 8 * stride_ + row % 8 * 128 + depth * 2);
    const std::uint64_t to = at ^ ((at >> 7 & 7U) << 4);
    if (to + 2 > t_.block->launch->shared_bytes) {
      Fail(t_, Fault::kIllegalAddress, "a matrix descriptor reaches behind shared memory");
    }
    return to;
  }
  std::uint16_t Element(unsigned row, unsigned depth) const {
    std::uint16_t bits;
    std::memcpy(&bits, t_.block->shared + At(row, depth), sizeof bits);
    return bits;
  }

  // Calls use(address) for each 16 bytes of rows [first, first + rows).
  template <class Use>
  void ForChunks(unsigned first, unsigned rows, const Use& use) const {
    const unsigned row_step = transposed_ ? 8 : 1, depth_step = transposed_ ? 1 : 8;
    for (unsigned r = 0; r < rows; r += row_step) {
      for (unsigned d = 0; d < kDepth; d += depth_step) use(At(first + r, d) & ~std::uint64_t{15});
    }
  }

 private:
  Thread& t_;
  bool transposed_;
  std::uint64_t start_, leading_, stride_;
};

unsigned FirstRow(const Thread& t) {
  return t.number / simt::kLanes % kWarpsOfGroup * (kRows / kWarpsOfGroup);
}

// Checks that the operand's bytes may be read, each lane a part of them, and keeps the read open
// until the group has been waited for.
void NoteOperand(Thread& t, const Operand& operand, unsigned first, unsigned rows) {
  BlockState& state = *StateOf(t);
  const unsigned lane = t.lane();
  unsigned chunk = 0;
  OpenRead read{~std::uint64_t{0}, 0, t.number, state.products[t.number].groups};
  operand.ForChunks(first, rows, [&](std::uint64_t address) {
    if (chunk++ % simt::kLanes == lane) NoteProductRead(t, address);
    read.begin = std::min(read.begin, address);
    read.end = std::max(read.end, address + 16);
  });
  if (lane == 0) state.reads.push_back(read);
}

constexpr std::uint32_t kNumbered = 0xff800000U, kNumbers = 0x003fffffU;

bool IsNumbered(std::uint32_t bits) {
  return (bits & ~kNumbers) == kNumbered && (bits & kNumbers) != 0;
}

// Replaces the number of a result by the result, if it has been computed.
void Resolve(const WarpgroupThread& mine, unsigned computed, std::uint32_t& bits) {
  if (!IsNumbered(bits)) return;
  for (unsigned i = 0; i < computed; ++i) {
    const std::uint32_t place = (bits & kNumbers) - mine.issued[i].first_number;
    if (place < mine.issued[i].product.cols / 2) {
      bits = mine.issued[i].sums[place];
      return;
    }
  }
}

double Value(bool is_bf16, std::uint16_t bits) {
  return is_bf16 ? double{Widened(Bfloat{bits})} : double{Widened(Half{bits})};
}

// Lane 4 g + q of warp w has sums i of columns 8 (i / 4) + 2 q + i % 2 and row
// 16 w + g + 8 (i / 2 % 2). a in registers is as for mma.m16n8k16 (tiles.h). Products are added in
// fp64 and rounded once.
void Compute(Thread& t, IssuedProduct& issued) {
  const WarpgroupProduct& p = issued.product;
  const unsigned g = t.lane() / 4, q = t.lane() % 4;
  double a[2][kDepth];
  if (p.a_in_registers) {
    for (unsigned h = 0; h < 2; ++h) {
      for (unsigned k = 0; k < kDepth; ++k) {
        const std::uint32_t word = issued.a[k % 8 / 2][h + 2 * (k / 8)];
        a[h][k] = Value(p.is_bf16, static_cast<std::uint16_t>(word >> 16 * (k % 2)));
      }
    }
  } else {
    const Operand left(t, p.a_descriptor, p.a_transposed);
    for (unsigned h = 0; h < 2; ++h) {
      for (unsigned k = 0; k < kDepth; ++k) {
        a[h][k] = Value(p.is_bf16, left.Element(FirstRow(t) + g + 8 * h, k));
      }
    }
  }
  const Operand right(t, p.b_descriptor, p.b_transposed);
  for (unsigned j = 0; j < p.cols / 8; ++j) {
    for (unsigned e = 0; e < 2; ++e) {
      double b[kDepth];
      for (unsigned k = 0; k < kDepth; ++k) {
        b[k] = Value(p.is_bf16, right.Element(8 * j + 2 * q + e, k));
      }
      for (unsigned h = 0; h < 2; ++h) {
        std::uint32_t& bits = issued.sums[4 * j + 2 * h + e];
        double sum = p.adds ? double{std::bit_cast<float>(bits)} : 0.0;
        for (unsigned k = 0; k < kDepth; ++k) sum += a[h][k] * b[k];
        bits = std::bit_cast<std::uint32_t>(static_cast<float>(sum));
      }
    }
  }
}

// Publishes what all lanes must share, and keeps the registers of a of the lane's row.
void Share(Thread& t, IssuedProduct& issued) {
  const WarpgroupProduct& p = issued.product;
  const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  LaneWords words{p.a[0], p.a[1], p.a[2], p.a[3], low(p.b_descriptor), low(p.b_descriptor >> 32)};
  if (!p.a_in_registers) words[0] = low(p.a_descriptor), words[1] = low(p.a_descriptor >> 32);
  const Exchange lanes(t, WarpInstruction::kWarpgroupMultiply, words);
  for (unsigned q = 0; q < 4; ++q) {
    for (unsigned r = 0; r < 4; ++r) issued.a[q][r] = lanes[t.lane() / 4 * 4 + q][r];
  }
  const bool differs = lanes[0][4] != words[4] || lanes[0][5] != words[5] ||
                       (!p.a_in_registers && (lanes[0][0] != words[0] || lanes[0][1] != words[1]));
  if (differs || lanes.size() != simt::kLanes) {
    Fail(t, Fault::kBarrier, "the lanes of a warp give different matrix descriptors");
  }
}

}  // namespace

// A mutant leaves the fence out.
void WarpgroupFence(Thread& t, int site) {
  if (!IsMutated(t, site)) StateOf(t)->products[t.number].is_fenced = true;
}

void WarpgroupCommit(Thread& t) {
  WarpgroupThread& mine = StateOf(t)->products[t.number];
  ++mine.groups;
  mine.uncommitted = 0;
}

// Sums of products under way need no fence, as they are only handed on. A mutant exchanges the
// orientation of b.
void WarpgroupMultiply(Thread& t, int site, WarpgroupProduct product, std::uint32_t* sums,
                       const std::uint16_t* numbers) {
  WarpgroupThread& mine = StateOf(t)->products[t.number];
  if (IsMutated(t, site)) product.b_transposed = !product.b_transposed;
  IssuedProduct issued{product, {}, {}, 0, mine.groups};
  Share(t, issued);
  const unsigned count = product.cols / 2;
  for (unsigned i = 0; i < count; ++i) issued.sums[i] = sums[numbers[i]];
  if (!mine.is_fenced && (mine.pending == 0 || product.a_in_registers)) {
    Fail(t, Fault::kBarrier, "wgmma.mma_async without a wgmma.fence after its registers changed");
  }
  if (!product.a_in_registers) {
    NoteOperand(t, Operand(t, product.a_descriptor, product.a_transposed), FirstRow(t),
                kRows / kWarpsOfGroup);
  }
  NoteOperand(t, Operand(t, product.b_descriptor, product.b_transposed), 0, product.cols);
  ++mine.pending, ++mine.uncommitted;
  if (t.block->launch->order == simt::Order::kForward) {
    Compute(t, issued);
    for (unsigned i = 0; i < count; ++i) sums[numbers[i]] = issued.sums[i];
  } else {
    issued.first_number = mine.next_number;
    mine.next_number += count;
    if (mine.next_number + kMaxSums > kNumbers) mine.next_number = 1;
    for (unsigned i = 0; i < count; ++i) sums[numbers[i]] = kNumbered | (issued.first_number + i);
  }
  mine.issued.push_back(issued);
}

// No lane goes on before all have read their operands. A mutant lets one more group be pending.
void WarpgroupWait(Thread& t, int site, unsigned left, std::uint32_t* sums, unsigned count) {
  BlockState& state = *StateOf(t);
  WarpgroupThread& mine = state.products[t.number];
  if (IsMutated(t, site)) ++left;
  const Exchange lanes(t, WarpInstruction::kWarpgroupWait, {left});
  if (lanes[0][0] != left) Fail(t, Fault::kBarrier, "the lanes of a warp wait for other groups");
  const auto is_over = [&](unsigned group) { return group + left < mine.groups; };
  unsigned over = 0;
  while (over < mine.issued.size() && is_over(mine.issued[over].group)) {
    IssuedProduct& issued = mine.issued[over];
    if (t.block->launch->order != simt::Order::kForward) {
      for (std::uint32_t& bits : issued.sums) Resolve(mine, over, bits);
      Compute(t, issued);
    }
    ++over;
  }
  for (unsigned i = 0; i < count; ++i) Resolve(mine, over, sums[i]);
  for (std::size_t i = over; i < mine.issued.size(); ++i) {
    for (std::uint32_t& bits : mine.issued[i].sums) Resolve(mine, over, bits);
  }
  mine.issued.erase(mine.issued.begin(), mine.issued.begin() + over);
  mine.pending = static_cast<unsigned>(mine.issued.size());
  mine.is_fenced = false;
  for (OpenRead& read : state.reads) {
    if (read.thread != t.number || !read.is_pending || !is_over(read.group)) continue;
    read.is_pending = false;
    read.epoch = state.clocks[t.number][t.number];
  }
  MeetWarp(t, ~0U);
}

}  // namespace foretrain::ptx
