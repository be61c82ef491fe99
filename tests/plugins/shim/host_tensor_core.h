// Warp-wide GPU instructions for kernels that run on the host: products of 16 x 8 tiles, loads of 8
// x 8 matrices, and asynchronous copies. tests/plugins/simt/tiles.h says how they are defined. All
// lanes must call the first two together, with addresses aligned as on a GPU.
#pragma once

#include <array>
#include <cstdint>

#include "tests/plugins/shim/host_shim.h"
#include "tests/plugins/simt/tiles.h"

namespace foretrain::shim {

inline void ExpectAligned(const void* at, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(at) % bytes == 0) return;
  simt::Fail(simt::Current(), simt::Fault::kMisaligned, "an address is not aligned");
}

inline void LoadMatrices(const void* row, bool transposed, std::uint32_t (&to)[4]) {
  ExpectAligned(row, 16);
  const auto loaded = simt::LoadMatrices(simt::Current(), row, transposed);
  std::copy(loaded.begin(), loaded.end(), to);
}

template <class Number>
void MultiplyTile(const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], Number number,
                  float (&c)[4]) {
  const auto sums = simt::MultiplyTile(simt::Current(), {a[0], a[1], a[2], a[3], b[0], b[1]},
                                       {c[0], c[1], c[2], c[3]}, number);
  std::copy(sums.begin(), sums.end(), c);
}

// cp.async of 4 or 16 bytes; writes zeros if `is_there` is false (src-size 0).
inline void CopyAsync(void* to, const void* from, std::size_t bytes, bool is_there) {
  ExpectAligned(to, bytes);
  if (is_there) ExpectAligned(from, bytes);
  simt::Thread& t = simt::Current();
  const auto* const source = static_cast<const std::byte*>(is_there ? from : nullptr);
  simt::BeginCopy(t, {static_cast<std::byte*>(to), source, static_cast<unsigned>(bytes), t.groups});
}
inline void CommitCopies() { ++simt::Current().groups; }

// Waits until at most `left` groups of this thread's copies are pending.
inline void AwaitCopies(unsigned left) {
  simt::AwaitCopies(simt::Current(), left, [](const simt::Copy&) {});
}

}  // namespace foretrain::shim
