// Asynchronous work of one block, for kernels with mbarriers: mbarriers and named barriers, bulk
// copies to shared memory, and reads by warpgroup products. By the PTX ISA, "mbarrier",
// "cp.async.bulk.tensor" and "Async proxy".
//
// A bulk copy lands, with its count of bytes, at once in forward order. In reverse order it lands
// when no thread can run, the last one first; in random order also earlier, in any order.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "tests/plugins/cuda/asynchronous/clocks.h"
#include "tests/plugins/cuda/asynchronous/tensor_map.h"
#include "tests/plugins/cuda/asynchronous/warpgroup.h"
#include "tests/plugins/cuda/kernels.h"

namespace foretrain::ptx {

constexpr unsigned kMaxMbarriers = 32;
constexpr unsigned kNamedBarriers = 16;

struct Mbarrier {
  unsigned slot = 0;      // its component of clocks, for copies that it tracks
  unsigned expected = 0;  // arrivals of a phase
  unsigned pending = 0;   // arrivals that the current phase lacks
  std::int64_t bytes = 0;
  std::uint32_t phase = 0;
  int owner = 0;              // thread that initialized it
  std::uint32_t epoch = 0;    // of the owner, when it did
  bool is_visible = false;    // a fence followed the initialization
  Clock arriving, completed;  // of the current phase, and of all earlier ones
};

// One bulk copy that is under way: rows of a box of a tensor.
struct BulkCopy {
  struct Row {
    std::uint64_t to = 0;  // offset in shared memory, before the swizzle
    const std::byte* from = nullptr;
    unsigned first = 0, bytes = 0;  // part of the row that lies in the tensor; the rest is zero
  };
  std::uint64_t begin = 0, bytes = 0;  // in shared memory
  std::uint64_t barrier = 0;
  std::vector<Row> rows;
};

// Bytes [begin, end) that a product of a warp reads.
struct OpenRead {
  std::uint64_t begin = 0, end = 0;
  unsigned thread = 0;  // first of the warp
  unsigned group = 0;
  bool is_pending = true;   // the group has not been waited for
  std::uint32_t epoch = 0;  // of the thread, when it had
};

struct NamedBarrier {
  unsigned arrived = 0, threads = 0;
  std::uint32_t uses = 0;
  ClockPair clocks;
};

struct BlockState {
  BlockState(unsigned threads, unsigned seed);

  unsigned threads;
  std::vector<Clock> clocks;                    // of threads; components: threads, then mbarriers
  std::vector<std::uint32_t> proxy_fences;      // of threads: fence.proxy.async so far
  std::map<std::uint64_t, Mbarrier> mbarriers;  // by address
  std::array<NamedBarrier, kNamedBarriers> named;
  ClockPair block_barrier;
  std::vector<ClockPair> warp_barriers;
  std::vector<BulkCopy> copies;
  std::vector<OpenRead> reads;
  std::vector<WarpgroupThread> products;  // of threads
  std::vector<unsigned> registers;        // of warpgroups, where set; else 0
  std::mt19937 engine;
};

inline BlockState* StateOf(const Thread& t) { return ChecksOf(t).state.get(); }

// Adds what `t` has done to a clock, and begins its next epoch.
void Release(BlockState& state, const Thread& t, Clock& to);
// Whether `t` knows that `other` has ended `epoch`.
bool Knows(const BlockState& state, const Thread& t, unsigned other, std::uint32_t epoch);

// Barriers of the whole block and of a warp; without mbarriers they only wait.
void MeetBlock(Thread& t);
void MeetWarp(Thread& t, unsigned mask);
void WaitAtNamedBarrier(Thread& t, unsigned number, unsigned threads);

// ---- mbarriers; addresses are offsets in shared memory

void InitMbarrier(Thread& t, std::uint64_t address, unsigned count);
void ArriveAtMbarrier(Thread& t, std::uint64_t address, std::int64_t bytes);
// If the phase is not complete, waits until it is, and still returns false, as if the time limit of
// the instruction had passed.
bool TryWaitParity(Thread& t, std::uint64_t address, unsigned parity);
// fence.mbarrier_init and fence.proxy.async make initializations visible to other threads and to
// copies; the latter also orders the thread's ordinary writes before asynchronous reads.
void FenceMbarrierInit(Thread& t);
void FenceProxyAsync(Thread& t);

// ---- bulk copies

void BeginBulkCopy(Thread& t, std::uint64_t to, std::uint64_t map, const std::int32_t* at,
                   unsigned rank, std::uint64_t mbarrier);
// Lands copies; the launch's `later`.
bool LandCopies(simt::Block& block, BlockState& state, simt::Moment moment);

// ---- checks of accesses

// A write, or the beginning of a copy, to bytes that products may still read.
void ExpectNotRead(Thread& t, std::uint64_t address, unsigned bytes);
// A product reads 16 bytes.
void NoteProductRead(Thread& t, std::uint64_t address);

void SetRegisters(Thread& t, unsigned count);

}  // namespace foretrain::ptx
