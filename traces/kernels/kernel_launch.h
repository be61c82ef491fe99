// How a kernel was launched, and the share of a multiprocessor's warps that such a launch can keep
// busy. kernel_table.h collects launches of a run.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace foretrain {

// All fields are 0 if the recorder did not say how a kernel was launched.
struct KernelLaunch {
  std::array<std::int32_t, 3> grid{};     // blocks in x, y, z
  std::array<std::int32_t, 3> block{};    // threads in x, y, z
  std::int32_t registers = 0;             // of a thread
  std::int32_t static_shared_bytes = 0;   // of a block, as all below
  std::int32_t dynamic_shared_bytes = 0;  // with the static ones if a trace has only their sum

  bool IsKnown() const { return grid[0] > 0 && block[0] > 0; }
  std::int64_t SharedBytes() const {
    return std::int64_t{static_shared_bytes} + dynamic_shared_bytes;
  }
  auto operator<=>(const KernelLaunch&) const = default;
};

// The resource that allows no further block on a multiprocessor.
enum class OccupancyLimit : std::uint8_t { kWarps, kBlocks, kRegisters, kSharedMemory };

// "warps", "blocks", "registers", "shared_memory".
std::string_view Name(OccupancyLimit limit);

struct Occupancy {
  int blocks = 0;      // of the kernel on one multiprocessor at once
  double share = 0.0;  // their warps over the warps that a multiprocessor can hold, in [0, 1]
  // The first of the tightest limits, in the order of OccupancyLimit.
  OccupancyLimit limit = OccupancyLimit::kWarps;
};

// Theoretical occupancy of a launch, as the CUDA occupancy calculator computes it [1]. Warps get
// registers in units of 256 from one of four partitions of 16,384. A block's shared memory is
// rounded up to 128 bytes (256 before 8.0) with 1 KiB that the driver adds from 8.0 on.
//
//   capability  compute capability as 10 * major + minor, e.g. 90
//
// Leaves out a carve-out that gives the kernel less than all shared memory, clusters, and grids
// with too few blocks to fill the GPU. `nullopt` if the launch or the capability is unknown, or if
// the block has more than 1,024 threads. O(1).
//
// [1] CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; the formulas
// are those of cuda_occupancy.h, against which tests compare.
std::optional<Occupancy> TheoreticalOccupancy(const KernelLaunch& launch, int capability);

// "grid 64 x 2, block 128, 168 registers, 48.0 KiB shared": trailing ones of grid and block and
// shared memory of 0 are left out. "" if the launch is unknown.
std::string Describe(const KernelLaunch& launch);

// "37.5 % (registers)".
std::string Describe(const Occupancy& occupancy);

}  // namespace foretrain
