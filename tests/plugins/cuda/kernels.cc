#include "tests/plugins/cuda/kernels.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <string_view>

#include "tests/plugins/cuda/asynchronous/block_state.h"

namespace foretrain::ptx {
namespace {

// Never destroyed: a report at exit reads them.
std::map<std::string, Kernel>& Kernels() {
  static auto* const kernels = new std::map<std::string, Kernel>;
  return *kernels;
}
std::vector<Range>& Constants() {
  static auto* const constants = new std::vector<Range>;
  return *constants;
}

// An earlier access is ordered before `t` if a barrier of the block lies between, or for threads of
// one warp a barrier of the warp. With mbarriers clocks tell.
bool IsUnordered(const Thread& t, int other, std::uint32_t block_barriers,
                 std::uint32_t warp_barriers) {
  if (const BlockState* const state = StateOf(t)) {
    return other >= 0 && !Knows(*state, t, static_cast<unsigned>(other), block_barriers);
  }
  if (other < 0 || other == static_cast<int>(t.number) || block_barriers != t.block_barriers) {
    return false;
  }
  return static_cast<unsigned>(other) / simt::kLanes != t.number / simt::kLanes ||
         warp_barriers >= t.warp_barriers;
}

std::uint32_t EpochOf(const Thread& t) { return StateOf(t)->clocks[t.number][t.number]; }

// Keeps the last reader of a byte beside the next one, which does not know of it.
void KeepRead(BlockState& state, const Accesses& a, std::uint64_t address) {
  const auto thread = static_cast<unsigned>(a.reader);
  if (!state.reads.empty()) {
    OpenRead& last = state.reads.back();
    if (last.end == address && last.thread == thread && last.epoch == a.read_block &&
        !last.is_pending) {
      ++last.end;
      return;
    }
  }
  state.reads.push_back({address, address + 1, thread, 0, false, a.read_block});
}

void NoteReader(Thread& t, Accesses& a, std::uint64_t address) {
  const auto number = static_cast<std::int16_t>(t.number);
  if (BlockState* const state = StateOf(t)) {
    if (IsUnordered(t, a.reader, a.read_block, 0)) KeepRead(*state, a, address);
    a.reader = number;
    a.read_block = EpochOf(t);
    return;
  }
  const bool again = a.reader >= 0 && a.read_block == t.block_barriers;
  const bool is_other_warp =
      static_cast<unsigned>(a.reader) / simt::kLanes != t.number / simt::kLanes;
  a.many_warps = again && (a.many_warps || is_other_warp);
  a.reader = number;
  a.read_block = t.block_barriers;
  a.read_warp = t.warp_barriers;
}

void ExpectWritable(Thread& t, const Accesses& a, std::uint64_t address) {
  ExpectWritten(t, a, "write after the write", address);
  if (IsUnordered(t, a.reader, a.read_block, a.read_warp) ||
      (a.many_warps && a.read_block == t.block_barriers)) {
    FailByRace(t, "write after the read", address, a.reader);
  }
}

}  // namespace

std::string NameIn(std::string mangled) {
  static constexpr std::string_view kMark = "_GLOBAL__N__";
  static constexpr std::string_view kHash = "00000000";
  const std::size_t at = mangled.find(kMark);
  if (at != std::string::npos) mangled.replace(at + kMark.size(), kHash.size(), kHash);
  return mangled;
}
void AddKernel(Kernel kernel) {
  std::string name = kernel.name = NameIn(kernel.name);
  Kernels().insert_or_assign(std::move(name), std::move(kernel));
}
void AddConstant(const void* begin, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  Constants().push_back({address, address + bytes});
}
const Kernel* FindKernel(const std::string& name) {
  const auto found = Kernels().find(name);
  return found != Kernels().end() ? &found->second : nullptr;
}
std::vector<const Kernel*> AllKernels() {
  std::vector<const Kernel*> all;
  all.reserve(Kernels().size());
  for (const auto& [name, kernel] : Kernels()) all.push_back(&kernel);
  return all;
}

void FailByRace(Thread& t, const char* kind, std::uint64_t address, int other) {
  const BlockState* const state = StateOf(t);
  std::ostringstream what;
  what << "race in shared memory at byte " << address << ": " << kind << " of ";
  if (state != nullptr && other >= static_cast<int>(state->threads)) {
    what << "an mbarrier's copies without a wait between";
  } else {
    what << "thread " << other << " without a barrier between";
  }
  Fail(t, Fault::kRace, what.str());
}

void ExpectWritten(Thread& t, const Accesses& a, const char* kind, std::uint64_t address) {
  if (a.pending) {
    Fail(t, Fault::kRace,
         "byte " + std::to_string(address) +
             " of shared memory is used before an asynchronous copy to it was "
             "waited for");
  }
  if (IsUnordered(t, a.writer, a.written_block, a.written_warp)) {
    FailByRace(t, kind, address, a.writer);
  }
}

void NoteRead(Thread& t, std::uint64_t address, unsigned bytes) {
  std::vector<Accesses>& accesses = ChecksOf(t).accesses;
  if (accesses.empty()) return;
  for (unsigned i = 0; i < bytes; ++i) {
    Accesses& a = accesses[address + i];
    ExpectWritten(t, a, "read after the write", address + i);
    if (a.writer < 0) {
      Fail(t, Fault::kRace,
           "byte " + std::to_string(address + i) +
               " of shared memory is read, but no thread of the block has written it");
    }
    NoteReader(t, a, address + i);
  }
}

void NoteWrite(Thread& t, std::uint64_t address, unsigned bytes) {
  const BlockState* const state = StateOf(t);
  if (state != nullptr) ExpectNotRead(t, address, bytes);
  std::vector<Accesses>& accesses = ChecksOf(t).accesses;
  if (accesses.empty()) return;
  for (unsigned i = 0; i < bytes; ++i) {
    Accesses& a = accesses[address + i];
    ExpectWritable(t, a, address + i);
    a.writer = static_cast<std::int16_t>(t.number);
    a.written_block = state != nullptr ? EpochOf(t) : t.block_barriers;
    a.written_warp = state != nullptr ? state->proxy_fences[t.number] : t.warp_barriers;
  }
}

void NoteBulkCopy(Thread& t, std::uint64_t address, unsigned bytes, bool pending) {
  ExpectNotRead(t, address, bytes);
  std::vector<Accesses>& accesses = ChecksOf(t).accesses;
  for (std::uint64_t i = address; i < address + bytes && !accesses.empty(); ++i) {
    ExpectWritable(t, accesses[i], i);
    accesses[i].pending = pending;
  }
}

void NoteLanded(Checks& checks, std::uint64_t address, unsigned bytes, int writer,
                std::uint32_t epoch) {
  for (std::uint64_t i = address; i < address + bytes && !checks.accesses.empty(); ++i) {
    checks.accesses[i] = {};
    checks.accesses[i].writer = static_cast<std::int16_t>(writer);
    checks.accesses[i].written_block = epoch;
  }
}

bool IsParameter(const Thread& t, std::uint64_t address, std::size_t bytes) {
  const std::vector<Range>& parameters = ChecksOf(t).parameters;
  return std::any_of(parameters.begin(), parameters.end(),
                     [&](const Range& range) { return range.Contains(address, bytes); });
}

void NotePending(Thread& t, std::uint64_t address, unsigned bytes, bool pending) {
  std::vector<Accesses>& accesses = ChecksOf(t).accesses;
  for (unsigned i = 0; i < bytes && !accesses.empty(); ++i) accesses[address + i].pending = pending;
}

void FindGlobal(Thread& t, std::uint64_t address, unsigned bytes) {
  Checks& checks = ChecksOf(t);
  Range found;
  for (const Range& constant : Constants()) {
    if (constant.Contains(address, bytes)) found = constant;
  }
  if (found.end == 0) found = checks.options.memory_at(address);
  if (!found.Contains(address, bytes)) {
    std::ostringstream what;
    what << "access of " << bytes << " bytes at 0x" << std::hex << address << std::dec;
    if (found.end != 0) {
      what << ", byte " << address - found.begin << " of an allocation of "
           << found.end - found.begin;
    } else {
      what << ", which is no memory of the device";
    }
    Fail(t, Fault::kIllegalAddress, what.str());
  }
  checks.ranges[checks.next_range] = found;
  checks.next_range = (checks.next_range + 1) % static_cast<unsigned>(checks.ranges.size());
}

simt::Outcome Execute(const Kernel& kernel, const simt::Dim& grid, const simt::Dim& block,
                      std::size_t dynamic_bytes, const std::byte* const* parameters,
                      const Options& options, Counts& counts) {
  Checks checks;
  checks.options = options;
  for (std::size_t i = 0; i < kernel.parameter_bytes.size(); ++i) {
    const auto begin = reinterpret_cast<std::uintptr_t>(parameters[i]);
    checks.parameters.push_back({begin, begin + kernel.parameter_bytes[i]});
  }
  CheckedLaunch launch;
  launch.kernel = kernel.name;
  launch.grid = grid;
  launch.block = block;
  launch.shared_bytes = kernel.shared_bytes + dynamic_bytes;
  launch.order = options.order;
  launch.run = [&](Thread& t) { kernel.run(t, parameters); };
  launch.checks = &checks;
  unsigned blocks = 0;  // begun: seeds of their random orders
  launch.begin_block = [&] {
    if (options.finds_races) checks.accesses.assign(launch.shared_bytes, {});
    if (!kernel.uses_mbarriers) return;
    checks.state = std::make_shared<BlockState>(static_cast<unsigned>(Count(block)), ++blocks);
  };
  if (kernel.uses_mbarriers) {
    launch.later = [&](simt::Block& of, simt::Moment moment) {
      return LandCopies(of, *checks.state, moment);
    };
  }
  const simt::Outcome outcome = simt::Execute(launch);
  for (const auto& sectors : checks.sectors) checks.counts.once += sectors.size() * kSectorBytes;
  counts += checks.counts;
  return outcome;
}

}  // namespace foretrain::ptx
