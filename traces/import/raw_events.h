// One rank's profile in a form independent of the profiler: plain events with interned names.
// kineto.h and nsys.h fill it, rank_timeline.h converts it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "traces/held_memory.h"
#include "traces/kernels/kernel_launch.h"
#include "traces/timeline.h"

namespace foretrain::trace_import {

// Interns texts; numbers count from 0.
class NameTable {
 public:
  NameTable() = default;
  NameTable(NameTable&&) = default;
  NameTable& operator=(NameTable&&) = default;

  std::uint32_t Of(std::string_view name);
  const std::string& Text(std::uint32_t number) const { return texts_[number]; }
  std::size_t size() const { return texts_.size(); }

 private:
  std::deque<std::string> texts_;  // addresses of texts stay valid
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

enum class RawKind : std::uint8_t {
  kKernel,  // kernel, copy and set run on the device
  kCopy,
  kSet,
  kHostOp,  // an op on a thread, e.g. aten::mm
  kCall,    // a call of the device's library: a launch or a wait
  kRange,   // an annotation on a thread
};
constexpr bool IsOnDevice(RawKind kind) { return kind <= RawKind::kSet; }

// The process group of a communication, as the library records it.
struct RawGroup {
  std::string description{};  // e.g. TENSOR_MODEL_PARALLEL_GROUP; empty: unknown
  std::string name{};         // unique among the groups of a rank; empty: unknown
  std::string ranks{};        // a list, possibly cut short; empty: unknown
  std::int64_t size = 0;      // 0: unknown
  std::int64_t source = -1;   // ranks of a send and its receive; -1: unknown, or a collective
  std::int64_t destination = -1;

  auto operator<=>(const RawGroup&) const = default;
};

// Arithmetic and traffic of an op, by the shapes of its inputs.
struct OpWork {
  double flops = 0;           // as in KernelWork
  double bytes = 0;           // as in KernelWork; 0: unknown
  std::string_view format{};  // of a table without end

  auto operator<=>(const OpWork&) const = default;
};

struct RawEvent {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t correlation = -1;  // joins a call to its device work; -1: unknown
  std::int64_t bytes = 0;
  std::uint32_t name = 0;        // index in names
  std::uint32_t track = 0;       // index in tracks: a stream or thread
  std::uint32_t group = 0;       // 1 + index in groups of a communication's group; 0: unknown
  std::uint32_t collective = 0;  // 1 + index in names of its kind, as the library records it
  // 1 + index of a kernel's launch in launches, or of a host op's work in works; 0: unknown
  std::uint32_t detail = 0;
  RawKind kind = RawKind::kKernel;
};

struct RawTrack {
  std::string process{}, thread{};
  bool autograd = false;  // this thread runs backward passes only
};

struct RawDevice {
  std::int64_t id = 0;
  std::string name{};
  std::int64_t memory_bytes = 0;
  int capability = 0;  // by CapabilityOf
};

// As KernelTable has it; 0 if the numbers are impossible or missing.
constexpr int CapabilityOf(std::int64_t major, std::int64_t minor) {
  const bool possible = major > 0 && major < 100 && minor >= 0 && minor < 10;
  return possible ? static_cast<int>(10 * major + minor) : 0;
}

// A point in time on a track.
struct RawPoint {
  std::uint32_t track = 0;
  std::int64_t time_ns = 0;
};

struct RankEvents {
  NameTable names;
  std::vector<RawTrack> tracks;
  std::vector<RawEvent> events;
  std::vector<KernelLaunch> launches;  // no two are equal
  std::vector<OpWork> works;           // no two are equal
  std::vector<RawGroup> groups;        // no two are equal
  std::vector<RawPoint> forwards;      // starts of ops whose backward op is in the trace
  std::vector<MemorySample> memory;    // rank 0 until import
  std::vector<HeldMemory> held;        // at the peak, largest first; empty: unknown
  std::vector<RawDevice> devices;
  std::optional<int> rank;  // stated by the trace
  std::optional<int> world;
  std::int64_t base_ns = 0;   // added to times; equal for files of one machine
  std::int64_t invalid = 0;   // events without a usable time
  std::int64_t unclosed = 0;  // begun and never ended
  std::vector<std::string> notes;
  std::string source;  // file, and process if the file has several

  // The track of a process and thread; created on first use.
  std::uint32_t TrackOf(std::string_view process, std::string_view thread);
  bool HasDevice() const;
  // 1 + the index of a launch, which is added if it is new; 0 for an unknown one.
  std::uint32_t LaunchOf(const KernelLaunch& launch);
  // 1 + the index of an op's work, which is added if it is new; 0 for an unknown one.
  std::uint32_t WorkOf(const OpWork& work);
  // 1 + the index of a group, which is added if it is new.
  std::uint32_t GroupOf(const RawGroup& group);

 private:
  std::map<KernelLaunch, std::uint32_t> launch_numbers_;
  std::map<OpWork, std::uint32_t> work_numbers_;
  std::map<RawGroup, std::uint32_t> group_numbers_;
  std::unordered_map<std::string, std::uint32_t> track_numbers_;
  std::string key_;
};

// Events of one trace lie closer together than this (52 days), so that sums of times stay in range.
inline constexpr std::int64_t kFarNs = std::int64_t{1} << 52;

// Capability and name of all devices of the ranks; 0 and empty if they differ or are unknown.
int CapabilityOf(const std::vector<RankEvents>& ranks);
std::string GpuOf(const std::vector<RankEvents>& ranks);

// Removes events that start further than kFarNs from the median start or last longer, and counts
// them as invalid: profilers write time 0 if they have none. O(n).
void DropFar(RankEvents& events);

}  // namespace foretrain::trace_import
