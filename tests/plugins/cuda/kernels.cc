#include "tests/plugins/cuda/kernels.h"

#include <algorithm>
#include <map>
#include <sstream>

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
// one warp a barrier of the warp.
bool IsUnordered(const Thread& t, int other, std::uint32_t block_barriers,
                 std::uint32_t warp_barriers) {
  if (other < 0 || other == static_cast<int>(t.number) || block_barriers != t.block_barriers) {
    return false;
  }
  return static_cast<unsigned>(other) / simt::kLanes != t.number / simt::kLanes ||
         warp_barriers >= t.warp_barriers;
}

[[noreturn]] void FailByRace(Thread& t, const char* kind, std::uint64_t address, int other) {
  std::ostringstream what;
  what << "race in shared memory at byte " << address << ": " << kind << " of thread " << other
       << " without a barrier between";
  Fail(t, Fault::kRace, what.str());
}

// Expects that no copy to the byte is pending and that the last write is ordered before `t`.
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

}  // namespace

void AddKernel(Kernel kernel) {
  std::string name = kernel.name;
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

void NoteRead(Thread& t, std::uint64_t address, unsigned bytes) {
  std::vector<Accesses>& accesses = ChecksOf(t).accesses;
  if (accesses.empty()) return;
  for (unsigned i = 0; i < bytes; ++i) {
    Accesses& a = accesses[address + i];
    ExpectWritten(t, a, "read after the write", address + i);
    const bool again = a.reader >= 0 && a.read_block == t.block_barriers;
    const bool is_other_warp =
        static_cast<unsigned>(a.reader) / simt::kLanes != t.number / simt::kLanes;
    a.many_warps = again && (a.many_warps || is_other_warp);
    a.reader = static_cast<std::int16_t>(t.number);
    a.read_block = t.block_barriers;
    a.read_warp = t.warp_barriers;
  }
}

void NoteWrite(Thread& t, std::uint64_t address, unsigned bytes) {
  std::vector<Accesses>& accesses = ChecksOf(t).accesses;
  if (accesses.empty()) return;
  for (unsigned i = 0; i < bytes; ++i) {
    Accesses& a = accesses[address + i];
    ExpectWritten(t, a, "write after the write", address + i);
    if (IsUnordered(t, a.reader, a.read_block, a.read_warp) ||
        (a.many_warps && a.read_block == t.block_barriers)) {
      FailByRace(t, "write after the read", address + i, a.reader);
    }
    a.writer = static_cast<std::int16_t>(t.number);
    a.written_block = t.block_barriers;
    a.written_warp = t.warp_barriers;
  }
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
  Checks checks{options, {}, {}, 0, {}, {}};
  CheckedLaunch launch;
  launch.kernel = kernel.name;
  launch.grid = grid;
  launch.block = block;
  launch.shared_bytes = kernel.shared_bytes + dynamic_bytes;
  launch.order = options.order;
  launch.run = [&](Thread& t) { kernel.run(t, parameters); };
  launch.checks = &checks;
  if (options.finds_races) {
    launch.begin_block = [&] { checks.accesses.assign(launch.shared_bytes, {}); };
  }
  const simt::Outcome outcome = simt::Execute(launch);
  for (const auto& sectors : checks.sectors) checks.counts.once += sectors.size() * kSectorBytes;
  counts += checks.counts;
  return outcome;
}

}  // namespace foretrain::ptx
