// Memory as text for a terminal and as JSON: of devices by category and what lies outside the
// program, of a node's host, and what copies move.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "sim/memory/device_use.h"
#include "sim/memory/host_memory.h"
#include "sim/memory/peak_memory.h"
#include "sim/program/ir/program.h"
#include "traces/metrics/metrics.h"

namespace foretrain {

class JsonWriter;

// Device memory outside the program's tensors at the peak. A row has the same name in all columns.
struct OutsideBytes {
  std::string name;  // "device context"
  std::int64_t bytes = 0;
  std::string source;
};

// Bytes by category of one rank, and what lies outside.
struct NamedPeak {
  std::string name;  // "stage 0"
  PeakMemory peak;
  std::vector<OutsideBytes> outside = {};

  std::int64_t InAll() const;
};

// The parts outside of `memory`, in the order in which they are shown.
std::vector<OutsideBytes> OutsideOf(const DeviceUse& memory, const SystemOptions& system);

// A table with one column a rank: categories that are not zero, their total, the parts outside the
// program, and the sum. Equal neighbours share a column ("stage 1-6"). If there are more than
// kPeakColumns, it shows the first, the last, the fullest and others between them.
inline constexpr std::size_t kPeakColumns = 8;
std::string MemoryText(const std::vector<NamedPeak>& peaks);
// The sources of the parts outside the program, one a line.
std::string OutsideSources(const std::vector<NamedPeak>& peaks);

// The key memory_gib, by name of a rank and category, into the open object; and memory_sources, by
// name of what lies outside.
void WriteMemory(JsonWriter& json, const std::vector<NamedPeak>& peaks);

// Peaks of a stored or simulated timeline, one a rank.
std::vector<NamedPeak> PeaksOf(const Metrics& metrics);

// Memory of a node's host: that of its largest rank, and the number of ranks.
struct HostView {
  HostMemory rank;
  int ranks = 1;         // of the node
  std::int64_t has = 0;  // the host; 0: unknown

  NodeMemory node() const { return NodeMemoryOf(rank, ranks); }
  bool fits() const { return has == 0 || node().Peak() <= has; }
};
// Rows that are not zero with their source, and the sums; empty if there are none.
std::string HostText(const HostView& view);
// The keys host_memory_gib (of a rank, pageable and pinned), pinned_memory_gib, nvme_gib and host,
// an object with all entries.
void WriteHost(JsonWriter& json, const HostView& view);

// Offloaded bytes, and the bytes that copies move.
struct OffloadStats {
  std::array<std::int64_t, kSpaceCount> peak_bytes{};  // of the fullest rank, by space
  CopiedBytes moved;                                   // in one step, all ranks of the program
};
OffloadStats OffloadStatsOf(const Program& program);
// One line for each space and route in use; empty if everything is on the device.
std::string OffloadText(const OffloadStats& stats);
// Lines of the routes alone.
std::string MovedText(const CopiedBytes& moved);
// The keys host_memory_gib (pageable and pinned), pinned_memory_gib and nvme_gib, and those of
// WriteMoved.
void WriteOffload(JsonWriter& json, const OffloadStats& stats);
// The keys moved_to_device_bytes, moved_from_device_bytes, read_from_nvme_bytes and
// written_to_nvme_bytes: of one step, all ranks.
void WriteMoved(JsonWriter& json, const CopiedBytes& moved);

}  // namespace foretrain
