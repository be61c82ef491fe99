// PTX instructions that access memory or involve other threads, written from the PTX ISA. Those on
// registers are in register_instructions.h. Translated kernels include this header (ptx_to_cpp.py).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "tests/plugins/cuda/asynchronous/block_state.h"
#include "tests/plugins/cuda/kernels.h"
#include "tests/plugins/cuda/register_instructions.h"
#include "tests/plugins/simt/tiles.h"

namespace foretrain::ptx {

using simt::Copy;
using simt::Exchange;
using simt::LaneWords;
using simt::WarpInstruction;

// ---- memory. Shared memory is addressed from 0; generic addresses are the host's.

FT_PTX std::uint64_t Address(const void* at) { return reinterpret_cast<std::uint64_t>(at); }
FT_PTX std::byte* Pointer(std::uint64_t address) { return reinterpret_cast<std::byte*>(address); }

template <class T>
FT_PTX T Load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <class T>
FT_PTX void Store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

// A basic block of so many instructions begins.
FT_PTX void Count(Thread& t, unsigned instructions) {
  ChecksOf(t).counts.instructions += instructions;
}

template <unsigned kBytes>
FT_PTX std::byte* GlobalAt(Thread& t, std::uint64_t address) {
  if (address % kBytes != 0) Fail(t, Fault::kMisaligned, "a global address is not aligned");
  for (const Range& range : ChecksOf(t).ranges) {
    if (range.Contains(address, kBytes)) return Pointer(address);
  }
  FindGlobal(t, address, kBytes);
  return Pointer(address);
}
// Not inline, as most that follow: translated modules compile in half the time.
template <unsigned kBytes>
[[gnu::noinline]] const std::byte* GlobalRead(Thread& t, std::uint64_t address) {
  Checks& checks = ChecksOf(t);
  checks.counts.read += kBytes;
  if (checks.options.counts_sectors) checks.sectors[0].insert(address / kSectorBytes);
  return GlobalAt<kBytes>(t, address);
}
template <unsigned kBytes>
[[gnu::noinline]] std::byte* GlobalWrite(Thread& t, std::uint64_t address) {
  Checks& checks = ChecksOf(t);
  checks.counts.written += kBytes;
  if (checks.options.counts_sectors) checks.sectors[1].insert(address / kSectorBytes);
  return GlobalAt<kBytes>(t, address);
}
template <unsigned kBytes>
FT_PTX std::byte* SharedAt(Thread& t, std::uint64_t address) {
  if (address % kBytes != 0) Fail(t, Fault::kMisaligned, "a shared address is not aligned");
  const std::size_t size = t.block->launch->shared_bytes;
  if (address > size || address + kBytes > size) {
    Fail(t, Fault::kIllegalAddress, "an address is behind the block's shared memory");
  }
  return t.block->shared + address;
}
template <unsigned kBytes>
[[gnu::noinline]] const std::byte* SharedRead(Thread& t, std::uint64_t address) {
  const std::byte* const at = SharedAt<kBytes>(t, address);
  NoteRead(t, address, kBytes);
  return at;
}
template <unsigned kBytes>
[[gnu::noinline]] std::byte* SharedWrite(Thread& t, std::uint64_t address) {
  std::byte* const at = SharedAt<kBytes>(t, address);
  NoteWrite(t, address, kBytes);
  return at;
}
FT_PTX std::uint64_t ToGeneric(const Thread& t, std::uint64_t address) {
  return Address(t.block->shared) + address;
}
FT_PTX std::uint64_t ToShared(const Thread& t, std::uint64_t address) {
  return address - Address(t.block->shared);
}

// Blocks of one launch run one after the other, but other streams' kernels run at the same time.
inline std::uint32_t AtomicAdd(Thread& t, std::uint64_t address, std::uint32_t value) {
  GlobalRead<4>(t, address);
  auto* const at = reinterpret_cast<std::uint32_t*>(GlobalWrite<4>(t, address));
  return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}

// ---- barriers

[[gnu::noinline]] inline void BarSync(Thread& t, int site) {
  if (!IsMutated(t, site)) MeetBlock(t);
}
inline void BarSyncNamed(Thread& t, int site, std::uint32_t number, std::uint32_t threads) {
  if (!IsMutated(t, site)) WaitAtNamedBarrier(t, number, threads);
}
inline void BarWarpSync(Thread& t, int site, std::uint32_t mask) {
  if (!IsMutated(t, site)) MeetWarp(t, mask);
}

// ---- mbarriers and fences. Mutants leave the instruction out; a wait is then over at once.

inline void Arrive(Thread& t, int site, std::uint64_t address, std::uint32_t bytes) {
  if (!IsMutated(t, site)) ArriveAtMbarrier(t, address, bytes);
}
inline bool TryWait(Thread& t, int site, std::uint64_t address, std::uint32_t parity) {
  return IsMutated(t, site) || TryWaitParity(t, address, parity);
}
inline void FenceInit(Thread& t, int site) {
  if (!IsMutated(t, site)) FenceMbarrierInit(t);
}
inline void FenceAsync(Thread& t, int site) {
  if (!IsMutated(t, site)) FenceProxyAsync(t);
}

// ---- bulk copies. A mutant copies the box that lies one element later.

template <unsigned kRank>
void CopyBulk(Thread& t, int site, std::uint64_t to, std::uint64_t map,
              std::array<std::int32_t, kRank> at, std::uint64_t mbarrier) {
  if (IsMutated(t, site)) ++at[0];
  BeginBulkCopy(t, to, map, at.data(), kRank, mbarrier);
}

// ---- instructions of a warp

[[gnu::noinline]] inline std::uint32_t ShuffleButterfly(Thread& t, std::uint32_t value,
                                                        std::uint32_t bits, std::uint32_t clamp,
                                                        std::uint32_t mask) {
  if (clamp != 31 || mask != ~0U) Fail(t, Fault::kTrap, "a shuffle of a part of a warp");
  const Exchange lanes(t, WarpInstruction::kShuffle, {value});
  return lanes[(t.lane() ^ bits) & 31U][0];
}
// From the lane `source`, or its own value if `valid` is false.
[[gnu::noinline]] inline std::uint32_t ShuffleFrom(Thread& t, std::uint32_t value, unsigned source,
                                                   bool valid, std::uint32_t mask) {
  if (mask != ~0U) Fail(t, Fault::kTrap, "a shuffle of a part of a warp");
  const Exchange lanes(t, WarpInstruction::kShuffle, {value});
  return lanes[valid ? source & 31U : t.lane()][0];
}
inline std::uint32_t ShuffleIndex(Thread& t, std::uint32_t value, std::uint32_t source,
                                  std::uint32_t clamp, std::uint32_t mask) {
  if (clamp != 31) Fail(t, Fault::kTrap, "a shuffle of a part of a warp");
  return ShuffleFrom(t, value, source, true, mask);
}
inline std::uint32_t ShuffleUp(Thread& t, std::uint32_t value, std::uint32_t distance,
                               std::uint32_t clamp, std::uint32_t mask) {
  if (clamp != 0) Fail(t, Fault::kTrap, "a shuffle of a part of a warp");
  return ShuffleFrom(t, value, t.lane() - distance, distance <= t.lane(), mask);
}
inline std::uint32_t Ballot(Thread& t, bool value, std::uint32_t mask) {
  if (mask != ~0U) Fail(t, Fault::kTrap, "a ballot of a part of a warp");
  const Exchange lanes(t, WarpInstruction::kBallot, {value ? 1U : 0U});
  std::uint32_t result = 0;
  for (unsigned lane = 0; lane < lanes.size(); ++lane) result |= lanes[lane][0] << lane;
  return result;
}

// A mutant loads the matrices transposed where they are not, and the other way round.
[[gnu::noinline]] inline std::array<std::uint32_t, 4> LoadMatrices(Thread& t, int site,
                                                                   std::uint64_t address,
                                                                   bool transposed) {
  return simt::LoadMatrices(t, SharedRead<16>(t, address), transposed != IsMutated(t, site));
}

// A mutant exchanges the two registers of b.
template <class T>
[[gnu::noinline]] std::array<float, 4> MultiplyTile(Thread& t, int site, LaneWords words,
                                                    const std::array<float, 4>& c) {
  constexpr std::uint64_t kProducts = 2 * 16 * 8 * 16;  // of a warp
  ChecksOf(t).counts.products += kProducts / simt::kLanes;
  if (IsMutated(t, site)) std::swap(words[4], words[5]);
  return simt::MultiplyTile(t, words, c, [](std::uint16_t bits) { return Widened(T{bits}); });
}

// ---- asynchronous copies

template <unsigned kBytes>
[[gnu::noinline]] void CopyAsync(Thread& t, std::uint64_t to, std::uint64_t from,
                                 std::uint32_t source_bytes) {
  if (source_bytes != 0 && source_bytes != kBytes) {
    Fail(t, Fault::kTrap, "an asynchronous copy of a part of its bytes");
  }
  const std::byte* const source = source_bytes == 0 ? nullptr : GlobalRead<kBytes>(t, from);
  simt::BeginCopy(t, {SharedWrite<kBytes>(t, to), source, kBytes, t.groups});
  NotePending(t, to, kBytes, t.block->launch->order != simt::Order::kForward);
}
inline void CommitCopies(Thread& t) { ++t.groups; }
// A mutant lets one more group be pending.
inline void AwaitCopies(Thread& t, int site, unsigned left) {
  simt::AwaitCopies(t, IsMutated(t, site) ? left + 1 : left, [&](const Copy& copy) {
    const auto to = static_cast<std::uint64_t>(copy.to - t.block->shared);
    NotePending(t, to, copy.bytes, false);
    NoteWrite(t, to, copy.bytes);
  });
}

}  // namespace foretrain::ptx
