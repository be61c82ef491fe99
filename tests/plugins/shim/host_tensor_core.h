// Warp-wide GPU instructions for kernels that run on the host: products of 16 x 8 tiles, loads of 8
// x 8 matrices, and asynchronous copies. They follow the PTX ISA ("Matrix fragments for
// mma.m16n8k16 with floating point type", "ldmatrix", "cp.async"). All lanes must call the first
// two together, with addresses aligned as on a GPU. Sums are rounded to fp32 after each term; a
// GPU's rounding within a product is not documented.
//
// A copy may complete at once or as late as its wait. In forward thread order copies complete at
// once, in other orders at the wait.
#pragma once

#include <array>
#include <cstdint>

#include "base/numeric/number_formats.h"
#include "tests/plugins/shim/host_shim.h"

namespace foretrain::shim {

inline void Stop(const char* what) {
  std::fprintf(stderr, "shim: block %u,%u,%u thread %u: %s\n", running->index.x, running->index.y,
               running->index.z, running->current->number, what);
  std::abort();
}

inline void ExpectAligned(const void* at, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(at) % bytes != 0) Stop("an address is not aligned");
}

// Words that the 32 lanes exchange in one instruction. All lanes must execute the same
// `instruction`.
class Handed {
 public:
  Handed(Instruction instruction, const LaneWords& words) {
    Fiber* const me = running->current;
    turn_ = me->turn ^= 1U;  // the previous instruction's words may still be read
    me->words[turn_] = words;
    me->instruction[turn_] = instruction;
    warp_ = me->number & ~31U;
    if (warp_ + 32 > running->fibers.size()) Stop("a warp instruction in a warp of fewer lanes");
    Yield(Wait::kWarp, ~0U);
    for (unsigned lane = 0; lane < 32; ++lane) {
      if (Of(lane).instruction[turn_] != instruction) Stop("lanes execute unlike instructions");
    }
  }
  const LaneWords& operator[](unsigned lane) const { return Of(lane).words[turn_]; }

 private:
  const Fiber& Of(unsigned lane) const { return running->fibers[warp_ + lane]; }

  unsigned turn_, warp_;
};

inline unsigned Lane() { return running->current->number & 31U; }

// ldmatrix .x4: lane 8 i + r supplies the address of row r of matrix i, eight 16-bit values. From
// each matrix a lane receives values 2 (lane % 4) and the next of row lane / 4. With .trans it is
// column lane / 4.
inline void LoadMatrices(const void* row, bool transposed, std::uint32_t (&to)[4]) {
  ExpectAligned(row, 16);
  LaneWords words{};
  std::memcpy(words.data(), &row, sizeof row);
  const Handed handed(transposed ? Instruction::kLoadTransposed : Instruction::kLoad, words);
  const unsigned lane = Lane();
  for (unsigned i = 0; i < 4; ++i) {
    std::uint16_t pair[2];
    for (unsigned e = 0; e < 2; ++e) {
      const unsigned r = transposed ? 2 * (lane % 4) + e : lane / 4;
      const unsigned c = transposed ? lane / 4 : 2 * (lane % 4) + e;
      const std::uint16_t* from;
      std::memcpy(&from, handed[8 * i + r].data(), sizeof from);
      pair[e] = from[c];
    }
    to[i] = pair[0] | static_cast<std::uint32_t>(pair[1]) << 16;
  }
}

// mma.m16n8k16: c[16, 8] += a[16, 16] b[16, 8]. Lane 4 g + t holds these parts.
//   a, register r: row g + 8 (r % 2), columns 2 t + 8 (r / 2) and the next
//   b, register r: rows 2 t + 8 r and the next, column g
//   c, value i:    row g + 8 (i / 2), column 2 t + i % 2
template <class Number>
void MultiplyTile(const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], Number number,
                  float (&c)[4]) {
  const Handed handed(Instruction::kMultiply, {a[0], a[1], a[2], a[3], b[0], b[1]});
  const unsigned g = Lane() / 4, t = Lane() % 4;
  const auto half = [&](std::uint32_t word, unsigned k) {
    return number(static_cast<std::uint16_t>(word >> 16 * (k % 2)));
  };
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned col = 2 * t + i % 2;
    for (unsigned k = 0; k < 16; ++k) {
      const unsigned lane = k % 8 / 2;
      const float x = half(handed[4 * g + lane][i / 2 + 2 * (k / 8)], k);
      const float y = half(handed[4 * col + lane][4 + k / 8], k);
      c[i] += x * y;
    }
  }
}

// cp.async of 4 or 16 bytes; writes zeros if `is_there` is false (src-size 0).
inline void CopyNow(const AsyncCopy& copy) {
  if (copy.from != nullptr) {
    std::memcpy(copy.to, copy.from, copy.bytes);
  } else {
    std::memset(copy.to, 0, copy.bytes);
  }
}
inline void CopyAsync(void* to, const void* from, std::size_t bytes, bool is_there) {
  ExpectAligned(to, bytes);
  if (is_there) ExpectAligned(from, bytes);
  Fiber* const me = running->current;
  const AsyncCopy copy{to, is_there ? from : nullptr, bytes, me->groups};
  if (order == Order::kForward) {
    CopyNow(copy);
  } else {
    me->copies.push_back(copy);
  }
}
inline void CommitCopies() { ++running->current->groups; }

// Waits until at most `left` groups of this thread's copies are pending.
inline void AwaitCopies(unsigned left) {
  Fiber* const me = running->current;
  std::erase_if(me->copies, [&](const AsyncCopy& copy) {
    if (copy.group + left >= me->groups) return false;
    CopyNow(copy);
    return true;
  });
}

}  // namespace foretrain::shim
