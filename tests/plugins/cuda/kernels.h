// Kernels of PTX that was translated to C++ (ptx_to_cpp.py), and their execution on the host. Each
// access is checked for alignment and bounds, and shared memory for races: two accesses by
// different threads, at least one of them a write, that no barrier orders.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "tests/plugins/simt/simt.h"

namespace foretrain::ptx {

using simt::Fault;
using simt::Thread;

struct BlockState;  // asynchronous/block_state.h

// A translated kernel. Sites are instructions that a mutant may change, by opcode.
struct Kernel {
  std::string name;  // mangled
  void (*run)(Thread&, const std::byte* const* parameters) = nullptr;
  unsigned shared_bytes = 0;  // static shared memory
  unsigned max_threads = 1024;
  std::vector<unsigned> parameter_bytes;
  std::vector<std::string> sites;
  bool uses_mbarriers = false;
};

// Registers what a translated module contains; called while the library is loaded.
// nvcc's name of a kernel without the hash of the path of its source, which differs where objects
// come from a cache of another checkout.
std::string NameIn(std::string mangled);
void AddKernel(Kernel kernel);
void AddConstant(const void* begin, std::size_t bytes);

// NULL if no module has it.
const Kernel* FindKernel(const std::string& name);
std::vector<const Kernel*> AllKernels();

struct Range {
  std::uintptr_t begin = 0, end = 0;
  bool Contains(std::uintptr_t address, std::size_t bytes) const {
    return address >= begin && address + bytes <= end;
  }
};

// Work of one launch or of several.
struct Counts {
  std::uint64_t instructions = 0;       // of PTX, summed over threads
  std::uint64_t read = 0, written = 0;  // bytes of device memory that instructions ask for
  std::uint64_t products = 0;           // multiplications and additions of tensor cores
  std::uint64_t once = 0;  // bytes of the sectors that a launch reads, and of those that it writes
  Counts& operator+=(const Counts& other) {
    instructions += other.instructions;
    read += other.read;
    written += other.written;
    products += other.products;
    once += other.once;
    return *this;
  }
  Counts operator-(const Counts& other) const {
    return {instructions - other.instructions, read - other.read, written - other.written,
            products - other.products, once - other.once};
  }
};

struct Options {
  simt::Order order = simt::Order::kForward;
  bool finds_races = true;
  bool counts_sectors = false;
  int mutated_site = -1;  // the site of the kernel that behaves wrongly; -1: none
  // The memory of the device that contains an address; empty if none does.
  std::function<Range(std::uintptr_t)> memory_at;
};

// Runs all blocks, or until the first fault, and adds their work to `counts`. Safe from any thread.
simt::Outcome Execute(const Kernel& kernel, const simt::Dim& grid, const simt::Dim& block,
                      std::size_t dynamic_bytes, const std::byte* const* parameters,
                      const Options& options, Counts& counts);

// ---- what instructions.h uses

// Last accesses to a byte of shared memory. Kernels with mbarriers order accesses by clocks
// (asynchronous/clocks.h): written_block and read_block are then the thread's epochs, written_warp
// its fences of the async proxy, and a writer behind the threads is the copies of an mbarrier.
struct Accesses {
  std::int16_t writer = -1, reader = -1;  // threads; -1: none
  bool many_warps = false;                // read by several warps since the block's last barrier
  bool pending = false;                   // an asynchronous copy to it has not been waited for
  std::uint32_t written_block = 0, written_warp = 0;  // barriers that the writer had passed
  std::uint32_t read_block = 0, read_warp = 0;
};

struct Checks {
  Options options;
  std::vector<Accesses> accesses;  // one a byte of shared memory; empty if races are not looked for
  std::array<Range, 4> ranges;     // device memory accessed lately
  unsigned next_range = 0;
  Counts counts;
  std::array<std::unordered_set<std::uint64_t>, 2>
      sectors;                        // read and written, if they are counted
  std::vector<Range> parameters;      // of the kernel
  std::shared_ptr<BlockState> state;  // of the current block; null without mbarriers
};
inline constexpr std::uint64_t kSectorBytes = 32;
struct CheckedLaunch : simt::Launch {
  Checks* checks = nullptr;
};
inline Checks& ChecksOf(const Thread& t) {
  return *static_cast<const CheckedLaunch*>(t.block->launch)->checks;
}
inline bool IsMutated(const Thread& t, int site) {
  return ChecksOf(t).options.mutated_site == site;
}

void NoteRead(Thread& t, std::uint64_t address, unsigned bytes);
void NoteWrite(Thread& t, std::uint64_t address, unsigned bytes);
// An asynchronous copy begins, or has been waited for.
void NotePending(Thread& t, std::uint64_t address, unsigned bytes, bool pending);
// A bulk copy begins, pending or done at once; and lands, for the component `writer` of clocks.
void NoteBulkCopy(Thread& t, std::uint64_t address, unsigned bytes, bool pending);
void NoteLanded(Checks& checks, std::uint64_t address, unsigned bytes, int writer,
                std::uint32_t epoch);
// Expects that no copy to the byte is pending and that the last write is ordered before `t`.
void ExpectWritten(Thread& t, const Accesses& a, const char* kind, std::uint64_t address);
[[noreturn]] void FailByRace(Thread& t, const char* kind, std::uint64_t address, int other);
// Whether the kernel has these bytes as a parameter.
bool IsParameter(const Thread& t, std::uint64_t address, std::size_t bytes);
// Finds the device memory of an access and remembers it; fails if there is none.
void FindGlobal(Thread& t, std::uint64_t address, unsigned bytes);

}  // namespace foretrain::ptx
