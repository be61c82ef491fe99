#include "sim/memory/host_memory.h"

#include <algorithm>
#include <bit>

#include "base/checked.h"
#include "sim/memory/peak_memory.h"
#include "sim/program/blocks/parameters.h"
#include "sim/program/ir/precision.h"
#include "traces/timeline.h"

namespace foretrain {
namespace {

constexpr std::int64_t kPageBytes = 4096;
// Resident memory of one process (github.com/pytorch/pytorch/issues/106511): 1068 MiB with Python
// and PyTorch's libraries, 1204 MiB more after the first use of a device.
constexpr std::int64_t kInterpreterBytes = std::int64_t{1068} << 20;
constexpr std::int64_t kDriverBytes = std::int64_t{1204} << 20;
constexpr std::int64_t kSpanCopies = 2;  // one recorded, one being written

constexpr std::array<HostEntry, kHostEntries> kEntries = {{
    {"pinned buffers", "pinned_gib", &HostMemory::pinned, true, "the program"},
    {"rounding of pinned ones", "pinned_rounding_gib", &HostMemory::rounding, true,
     "gaps of the arena, or powers of two (PyTorch, CachingHostAllocator)"},
    {"pageable buffers", "pageable_gib", &HostMemory::pageable, true, "the program"},
    {"process", "process_gib", &HostMemory::process, true,
     "github.com/pytorch/pytorch/issues/106511: 1204 MiB with a device in use, 1068 MiB of Python "
     "and libraries"},
    {"profiler", "profiler_gib", &HostMemory::profiler, true, "spans of one step, held twice"},
    {"weights while they load", "loading_gib", &HostMemory::loading, false,
     "a checkpoint's shard of the rank, or the whole model, as the system loads"},
    {"disk", "nvme_gib", &HostMemory::disk, false, "the program"},
}};

// PyTorch's CachingHostAllocator rounds each pinned request up to a power of two.
std::int64_t PowerOfTwo(std::int64_t bytes) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(bytes)));
}

std::int64_t Pages(std::int64_t bytes) { return CeilDiv(bytes, kPageBytes) * kPageBytes; }

// Persistent buffers are state; they are there before the first step.
std::int64_t StateOf(const RankProgram& rank, Space space) {
  std::int64_t sum = 0;
  for (const Buffer& buffer : rank.buffers) {
    if (buffer.persistent && buffer.space == space) sum += buffer.bytes;
  }
  return sum;
}

std::int64_t ProcessBytes(const ClusterSpec& cluster, const SystemOptions& system) {
  if (cluster.is_cpu) return 0;
  return kDriverBytes + (system.caching_allocator ? kInterpreterBytes : 0);
}

// Gradients are not loaded, and state on NVMe is written there directly. Without shards each
// process builds the whole model before it cuts out its part.
std::int64_t LoadedBytes(const ModelSpec& model, const Program& program, const RankProgram& rank,
                         const SystemOptions& system) {
  if (system.load != LoadOrder::kShard) {
    return BytesIn(ActivationFormat(program.plan), CountParameters(model, program.plan).all);
  }
  std::int64_t sum = 0;
  for (const Buffer& buffer : rank.buffers) {
    const bool saved = buffer.category != Category::kGradients;
    if (buffer.persistent && buffer.space != Space::kNvme && saved) sum += buffer.bytes;
  }
  return sum;
}

}  // namespace

const std::array<HostEntry, kHostEntries>& HostEntries() { return kEntries; }

// `rounding` compares the allocator's bytes with the live peak. Systems that round each buffer are
// summed buffer by buffer; the others take one arena in whole pages.
HostMemory HostMemoryOf(const ModelSpec& model, const Program& program, const RankProgram& rank,
                        const ClusterSpec& cluster, const SystemOptions& system) {
  const auto arena = [&](Space space) { return rank.arena_bytes[static_cast<std::size_t>(space)]; };
  HostMemory out;
  out.pinned = LinkedPeak(rank, Space::kPinned).total;
  const std::int64_t taken = system.pinned_powers
                                 ? LinkedPeak(rank, Space::kPinned, &PowerOfTwo).total
                                 : Pages(arena(Space::kPinned));
  out.rounding = std::max<std::int64_t>(0, taken - out.pinned);
  out.pageable = arena(Space::kHost);
  out.state = StateOf(rank, Space::kPinned) + StateOf(rank, Space::kHost);
  out.disk = arena(Space::kNvme);
  out.process = ProcessBytes(cluster, system);
  if (system.profiled) {
    out.profiler = kSpanCopies * rank.op_count * static_cast<std::int64_t>(sizeof(Span));
  }
  out.loads_once = cluster.is_cpu || system.load == LoadOrder::kOneProcess;
  out.loading = cluster.is_cpu
                    ? BytesIn(NumberFormat::kFp32, CountParameters(model, program.plan).all)
                    : LoadedBytes(model, program, rank, system);
  return out;
}

NodeMemory NodeMemoryOf(const HostMemory& rank, int ranks) {
  const std::int64_t loads = rank.loads_once ? 1 : ranks;
  return {ranks * rank.InStep(), ranks * (rank.process + rank.state) + loads * rank.loading};
}

// Only kCopy ops count. A copy between host and NVMe adds to the disk alone.
CopiedBytes CopiedBytesOf(const Program& program, const RankProgram& rank) {
  CopiedBytes sum;
  for (const OpRef ref : OpRefs(program, rank)) {
    const Op& op = OpAt(program, rank, ref);
    if (op.kind != OpKind::kCopy) continue;
    const std::int64_t bytes = OperandBinding(program, rank, ref, 0).bytes;
    if (op.to == Space::kDevice) sum.to_device += bytes;
    if (op.from == Space::kDevice) sum.from_device += bytes;
    if (op.from == Space::kNvme) sum.read += bytes;
    if (op.to == Space::kNvme) sum.written += bytes;
  }
  return sum;
}

std::int64_t HostShareOf(const ClusterSpec& cluster, const SystemOptions& system) {
  if (cluster.is_cpu || cluster.host_memory_bytes == 0) return 0;
  const std::int64_t share = cluster.host_memory_bytes / cluster.devices_per_node;
  return std::max<std::int64_t>(1, share - ProcessBytes(cluster, system));
}

}  // namespace foretrain
