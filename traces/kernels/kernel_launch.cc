#include "traces/kernels/kernel_launch.h"

#include <algorithm>

#include "base/checked.h"
#include "base/units.h"

namespace foretrain {
namespace {

constexpr std::int64_t kWarpThreads = 32;
constexpr std::int64_t kMaxThreads = 1'024;  // of a block
constexpr std::int64_t kRegisters = 65'536;  // of a multiprocessor and, at most, of a block
constexpr std::int64_t kPartitions = 4;
constexpr std::int64_t kRegisterUnit = 256;

struct Multiprocessor {
  int capability = 0;
  int warps = 0, blocks = 0;
  std::int64_t shared_bytes = 0;
};

constexpr std::array<Multiprocessor, 13> kMultiprocessors{{
    {70, 64, 32, 96 * kKiB},
    {72, 64, 32, 96 * kKiB},
    {75, 32, 16, 64 * kKiB},
    {80, 64, 32, 164 * kKiB},
    {86, 48, 16, 100 * kKiB},
    {87, 48, 16, 164 * kKiB},
    {89, 48, 24, 100 * kKiB},
    {90, 64, 32, 228 * kKiB},
    {100, 64, 32, 228 * kKiB},
    {103, 64, 32, 228 * kKiB},
    {110, 48, 24, 228 * kKiB},
    {120, 48, 24, 100 * kKiB},
    {121, 48, 24, 100 * kKiB},
}};

constexpr std::array<std::string_view, 4> kLimits{"warps", "blocks", "registers", "shared_memory"};

std::int64_t RoundUp(std::int64_t value, std::int64_t unit) { return CeilDiv(value, unit) * unit; }

// "64 x 2": numbers after the last one above 1 are left out.
std::string Extent(const std::array<std::int32_t, 3>& numbers) {
  std::size_t count = 3;
  while (count > 1 && numbers[count - 1] <= 1) --count;
  std::string text = std::to_string(numbers[0]);
  for (std::size_t i = 1; i < count; ++i) text += " x " + std::to_string(numbers[i]);
  return text;
}

}  // namespace

std::string_view Name(OccupancyLimit limit) { return kLimits[static_cast<std::size_t>(limit)]; }

// Each resource allows some number of blocks; the least counts. A launch that no multiprocessor can
// hold has occupancy 0: the record is then wrong, because CUDA refuses such a launch.
std::optional<Occupancy> TheoreticalOccupancy(const KernelLaunch& launch, int capability) {
  const auto device =
      std::find_if(kMultiprocessors.begin(), kMultiprocessors.end(),
                   [&](const Multiprocessor& one) { return one.capability == capability; });
  if (!launch.IsKnown() || device == kMultiprocessors.end()) return std::nullopt;
  std::int64_t threads = 1;
  for (const std::int32_t extent : launch.block) {
    if (extent < 1 || (threads *= extent) > kMaxThreads) return std::nullopt;
  }
  const std::int64_t warps = CeilDiv(threads, kWarpThreads);
  std::array<std::int64_t, 4> blocks{device->warps / warps, device->blocks, device->blocks,
                                     device->blocks};
  if (launch.registers > 0) {
    const std::int64_t of_warp = RoundUp(launch.registers * kWarpThreads, kRegisterUnit);
    // The launch check counts registers as if all partitions held equally many warps of the block.
    const bool fits = of_warp * RoundUp(warps, kPartitions) <= kRegisters;
    blocks[2] = fits ? kRegisters / kPartitions / of_warp * kPartitions / warps : 0;
  }
  const bool is_ampere_or_later = capability >= 80;
  const std::int64_t shared_bytes = RoundUp(launch.SharedBytes() + (is_ampere_or_later ? kKiB : 0),
                                            is_ampere_or_later ? 128 : 256);
  if (shared_bytes > 0) blocks[3] = device->shared_bytes / shared_bytes;
  const auto least = std::min_element(blocks.begin(), blocks.end());
  return Occupancy{
      .blocks = static_cast<int>(*least),
      .share = static_cast<double>(*least * warps) / static_cast<double>(device->warps),
      .limit = static_cast<OccupancyLimit>(least - blocks.begin())};
}

std::string Describe(const KernelLaunch& launch) {
  if (!launch.IsKnown()) return {};
  std::string text = "grid " + Extent(launch.grid) + ", block " + Extent(launch.block) + ", " +
                     std::to_string(launch.registers) + " registers";
  if (launch.SharedBytes() > 0) text += ", " + FormatBytes(launch.SharedBytes()) + " shared";
  return text;
}

std::string Describe(const Occupancy& occupancy) {
  std::string limit(Name(occupancy.limit));
  std::replace(limit.begin(), limit.end(), '_', ' ');
  return FormatPercent(occupancy.share) + " (" + limit + ")";
}

}  // namespace foretrain
