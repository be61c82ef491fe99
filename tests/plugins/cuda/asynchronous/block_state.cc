#include "tests/plugins/cuda/asynchronous/block_state.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace foretrain::ptx {
namespace {

std::string At(std::uint64_t address) { return " at byte " + std::to_string(address); }

void Complete(Mbarrier& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  ++barrier.phase;
  barrier.pending = barrier.expected;
  Join(barrier.completed, barrier.arriving);
}

Mbarrier& Find(Thread& t, BlockState& state, std::uint64_t address) {
  const auto found = state.mbarriers.find(address);
  if (found == state.mbarriers.end()) {
    Fail(t, Fault::kBarrier, "no mbarrier was initialized" + At(address));
  }
  Mbarrier& barrier = found->second;
  const auto owner = static_cast<unsigned>(barrier.owner);
  if (owner != t.number && (!barrier.is_visible || !Knows(state, t, owner, barrier.epoch))) {
    Fail(
        t, Fault::kBarrier,
        "an mbarrier is used without a fence and a barrier after its initialization" + At(address));
  }
  return barrier;
}

template <class Wait>
void Synchronize(Thread& t, ClockPair& pair, std::uint32_t number, const Wait& wait) {
  BlockState* const state = StateOf(t);
  if (state == nullptr) return wait();
  Clock& clock = pair.of[number % 2];
  Release(*state, t, clock);
  wait();
  Join(state->clocks[t.number], clock);
}

void Land(simt::Block& block, BlockState& state, std::size_t i) {
  const BulkCopy copy = state.copies[i];
  state.copies.erase(state.copies.begin() + static_cast<std::ptrdiff_t>(i));
  for (const BulkCopy::Row& row : copy.rows) {
    std::array<std::byte, kBoxRowBytes> bytes{};
    if (row.bytes > 0) std::memcpy(bytes.data() + row.first, row.from, row.bytes);
    // 128-byte swizzle: bits 4 to 6 of an address are combined with bits 7 to 9.
    for (std::uint64_t chunk = 0; chunk < kBoxRowBytes; chunk += 16) {
      const std::uint64_t to = (row.to + chunk) ^ ((row.to >> 7 & 7U) << 4);
      std::memcpy(block.shared + to, bytes.data() + chunk, 16);
    }
  }
  Mbarrier& barrier = state.mbarriers.at(copy.barrier);
  const std::uint32_t epoch = barrier.phase + 1;
  NoteLanded(*static_cast<const CheckedLaunch*>(block.launch)->checks, copy.begin,
             static_cast<unsigned>(copy.bytes), static_cast<int>(state.threads + barrier.slot),
             epoch);
  barrier.arriving[state.threads + barrier.slot] = epoch;
  barrier.bytes -= static_cast<std::int64_t>(copy.bytes);
  Complete(barrier);
}

const TensorMap& MapAt(Thread& t, std::uint64_t address) {
  const auto* const map = reinterpret_cast<const TensorMap*>(address);
  if (!IsParameter(t, address, sizeof *map)) {
    Fail(t, Fault::kTrap, "a tensor map is no parameter of the kernel");
  }
  if (map->mark != kTensorMapMark) Fail(t, Fault::kTrap, "a tensor map was not encoded");
  return *map;
}

// The rows of a box, its innermost dimension along each row. Elements outside the tensor are zero.
void AddRows(Thread& t, const TensorMap& map, const std::int32_t* at, BulkCopy& copy) {
  constexpr std::int64_t kElement = 2;
  const auto size = [&](unsigned d) {
    return d < map.rank ? static_cast<std::int64_t>(map.sizes[d]) : 1;
  };
  const auto box = [&](unsigned d) { return d < map.rank ? std::int64_t{map.box[d]} : 1; };
  const auto first = [&](unsigned d) { return d < map.rank ? std::int64_t{at[d]} : 0; };
  const std::int64_t begin = std::clamp<std::int64_t>(first(0), 0, size(0));
  const std::int64_t end = std::clamp<std::int64_t>(first(0) + box(0), 0, size(0));
  for (std::int64_t i = 0; i < box(1) * box(2); ++i) {
    const std::int64_t row = first(1) + i % box(1), plane = first(2) + i / box(1);
    BulkCopy::Row to{copy.begin + static_cast<std::uint64_t>(i) * kBoxRowBytes};
    const bool is_there = row >= 0 && row < size(1) && plane >= 0 && plane < size(2) && end > begin;
    if (is_there) {
      const std::uint64_t from =
          map.address + static_cast<std::uint64_t>(begin * kElement) +
          static_cast<std::uint64_t>(row) * map.strides[1] +
          static_cast<std::uint64_t>(plane) * (map.rank > 2 ? map.strides[2] : 0);
      to.first = static_cast<unsigned>((begin - first(0)) * kElement);
      to.bytes = static_cast<unsigned>((end - begin) * kElement);
      FindGlobal(t, from, to.bytes);
      to.from = reinterpret_cast<const std::byte*>(from);
    }
    copy.rows.push_back(to);
  }
}

}  // namespace

BlockState::BlockState(unsigned count, unsigned seed)
    : threads(count),
      clocks(count, Clock(count + kMaxMbarriers)),
      proxy_fences(count),
      warp_barriers((count + simt::kLanes - 1) / simt::kLanes),
      products(count),
      registers((count + 127) / 128),
      engine(seed) {
  const Clock none(count + kMaxMbarriers);
  for (unsigned i = 0; i < count; ++i) clocks[i][i] = 1;
  for (Clock& clock : block_barrier.of) clock = none;
  for (ClockPair& pair : warp_barriers) pair.of[0] = pair.of[1] = none;
  for (NamedBarrier& barrier : named) barrier.clocks.of[0] = barrier.clocks.of[1] = none;
}

void Release(BlockState& state, const Thread& t, Clock& to) {
  Join(to, state.clocks[t.number]);
  ++state.clocks[t.number][t.number];
}

bool Knows(const BlockState& state, const Thread& t, unsigned other, std::uint32_t epoch) {
  return other == t.number || state.clocks[t.number][other] >= epoch;
}

// ---- barriers

void MeetBlock(Thread& t) {
  BlockState* const state = StateOf(t);
  if (state == nullptr) return simt::BlockBarrier(t);
  Synchronize(t, state->block_barrier, t.block_barriers, [&] { simt::BlockBarrier(t); });
}

void MeetWarp(Thread& t, unsigned mask) {
  BlockState* const state = StateOf(t);
  if (state == nullptr) return simt::WarpBarrier(t, mask);
  Synchronize(t, state->warp_barriers[t.number / simt::kLanes], t.warp_barriers,
              [&] { simt::WarpBarrier(t, mask); });
}

// bar.sync with a number of threads: the last that arrives lets all pass.
void WaitAtNamedBarrier(Thread& t, unsigned number, unsigned threads) {
  BlockState& state = *StateOf(t);
  if (number >= kNamedBarriers || threads == 0 || threads % simt::kLanes != 0) {
    Fail(t, Fault::kBarrier,
         "no barrier " + std::to_string(number) + " of " + std::to_string(threads) +
             " threads exists");
  }
  NamedBarrier& barrier = state.named[number];
  if (barrier.arrived > 0 && barrier.threads != threads) {
    Fail(t, Fault::kBarrier, "threads give different sizes of one barrier");
  }
  barrier.threads = threads;
  const std::uint32_t use = barrier.uses;
  Synchronize(t, barrier.clocks, use, [&] {
    if (++barrier.arrived == threads) {
      barrier.arrived = 0;
      ++barrier.uses;
    } else {
      simt::AwaitUntil(t, [&] { return barrier.uses != use; });
    }
  });
}

// ---- mbarriers

void InitMbarrier(Thread& t, std::uint64_t address, unsigned count) {
  BlockState& state = *StateOf(t);
  if (address % 8 != 0 || address + 8 > t.block->launch->shared_bytes || count == 0 ||
      state.mbarriers.size() == kMaxMbarriers || state.mbarriers.contains(address)) {
    Fail(t, Fault::kBarrier, "an mbarrier cannot be initialized" + At(address));
  }
  Mbarrier barrier;
  barrier.slot = static_cast<unsigned>(state.mbarriers.size());
  barrier.expected = barrier.pending = count;
  barrier.owner = static_cast<int>(t.number);
  barrier.epoch = state.clocks[t.number][t.number];
  barrier.arriving = barrier.completed = Clock(state.threads + kMaxMbarriers);
  state.mbarriers[address] = barrier;
}

void ArriveAtMbarrier(Thread& t, std::uint64_t address, std::int64_t bytes) {
  BlockState& state = *StateOf(t);
  Mbarrier& barrier = Find(t, state, address);
  if (barrier.pending == 0) {
    Fail(t, Fault::kBarrier, "more threads arrive at an mbarrier than it expects" + At(address));
  }
  barrier.bytes += bytes;
  --barrier.pending;
  Release(state, t, barrier.arriving);
  Complete(barrier);
}

bool TryWaitParity(Thread& t, std::uint64_t address, unsigned parity) {
  BlockState& state = *StateOf(t);
  const Mbarrier& barrier = Find(t, state, address);
  if (barrier.phase % 2 == parity % 2) {
    simt::AwaitUntil(t, [&] { return barrier.phase % 2 != parity % 2; });
    return false;
  }
  Join(state.clocks[t.number], barrier.completed);
  return true;
}

void FenceMbarrierInit(Thread& t) {
  for (auto& [address, barrier] : StateOf(t)->mbarriers) {
    if (barrier.owner == static_cast<int>(t.number)) barrier.is_visible = true;
  }
}

void FenceProxyAsync(Thread& t) {
  FenceMbarrierInit(t);
  ++StateOf(t)->proxy_fences[t.number];
}

// ---- bulk copies

void BeginBulkCopy(Thread& t, std::uint64_t to, std::uint64_t map_address, const std::int32_t* at,
                   unsigned rank, std::uint64_t mbarrier) {
  BlockState& state = *StateOf(t);
  const TensorMap& map = MapAt(t, map_address);
  if (map.rank != rank) Fail(t, Fault::kTrap, "a bulk copy of another rank than its tensor map's");
  BulkCopy copy;
  copy.begin = to, copy.barrier = mbarrier;
  copy.bytes = kBoxRowBytes;
  for (unsigned d = 1; d < rank; ++d) copy.bytes *= map.box[d];
  if (to % 128 != 0 || to + copy.bytes > t.block->launch->shared_bytes) {
    Fail(t, Fault::kMisaligned,
         "a bulk copy to shared memory" + At(to) + " is not aligned to 128" +
             " bytes, or ends behind the block's shared memory");
  }
  if (!Find(t, state, mbarrier).is_visible) {
    Fail(t, Fault::kBarrier,
         "a bulk copy uses an mbarrier before a fence after its " + std::string("initialization"));
  }
  AddRows(t, map, at, copy);
  const bool is_late = t.block->launch->order != simt::Order::kForward;
  NoteBulkCopy(t, to, static_cast<unsigned>(copy.bytes), is_late);
  state.copies.push_back(std::move(copy));
  if (!is_late) Land(*t.block, state, state.copies.size() - 1);
}

bool LandCopies(simt::Block& block, BlockState& state, simt::Moment moment) {
  if (state.copies.empty() || moment == simt::Moment::kEnd) return !state.copies.empty();
  const bool is_random = block.launch->order == simt::Order::kRandom;
  if (moment == simt::Moment::kRound && (!is_random || state.engine() % 2 != 0)) return false;
  Land(block, state, is_random ? state.engine() % state.copies.size() : state.copies.size() - 1);
  return true;
}

// ---- checks of accesses

void ExpectNotRead(Thread& t, std::uint64_t address, unsigned bytes) {
  BlockState& state = *StateOf(t);
  std::erase_if(state.reads, [&](const OpenRead& read) {
    if (read.end <= address || read.begin >= address + bytes) return false;
    if (read.is_pending || !Knows(state, t, read.thread, read.epoch)) {
      FailByRace(t, "write after the read", std::max(read.begin, address),
                 static_cast<int>(read.thread));
    }
    return read.begin >= address && read.end <= address + bytes;
  });
}

void NoteProductRead(Thread& t, std::uint64_t address) {
  BlockState& state = *StateOf(t);
  const std::vector<Accesses>& accesses = ChecksOf(t).accesses;
  for (std::uint64_t i = address; i < address + 16 && !accesses.empty(); ++i) {
    ExpectWritten(t, accesses[i], "read after the write", i);
    const int writer = accesses[i].writer;
    if (writer >= 0 && writer < static_cast<int>(state.threads) &&
        state.proxy_fences[static_cast<unsigned>(writer)] <= accesses[i].written_warp) {
      Fail(t, Fault::kRace,
           "wgmma reads byte " + std::to_string(i) +
               " of shared memory, which a thread wrote without "
               "fence.proxy.async after it");
    }
  }
}

void SetRegisters(Thread& t, unsigned count) {
  BlockState& state = *StateOf(t);
  state.registers[t.number / 128] = count;
  unsigned all = 0;
  for (const unsigned each : state.registers) all += each * 128;
  constexpr unsigned kRegisters = 65536;
  if (count % 8 != 0 || count < 24 || count > 256 || all > kRegisters) {
    Fail(t, Fault::kTrap,
         "setmaxnreg: " + std::to_string(count) + " registers a thread, " + std::to_string(all) +
             " of the block");
  }
}

}  // namespace foretrain::ptx
