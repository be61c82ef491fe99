// What a profiler wrote of one rank, in one form whatever the profiler: plain events with interned
// names. Leaves out how it was read (kineto.h, nsys.h) and what becomes of it (rank_timeline.h).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "traces/timeline.h"

namespace foretrain::trace_import {

// Every text once; numbers count from 0.
class NameTable {
 public:
  NameTable() = default;
  NameTable(NameTable&&) = default;
  NameTable& operator=(NameTable&&) = default;

  std::uint32_t Of(std::string_view name);
  const std::string& Text(std::uint32_t number) const { return texts_[number]; }
  std::size_t size() const { return texts_.size(); }

 private:
  std::deque<std::string> texts_;  // a text stays where it is
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

enum class RawKind : std::uint8_t {
  kKernel,  // on the device; the rest of these three too
  kCopy,
  kSet,
  kHostOp,  // aten::mm and its like, on a thread
  kCall,    // of the device's library: a launch, a wait
  kRange,   // an annotation on a thread
};
constexpr bool IsOnDevice(RawKind kind) { return kind <= RawKind::kSet; }

struct RawEvent {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t correlation = -1;  // of a call and what it launched; -1: unknown
  std::int64_t bytes = 0;
  std::uint32_t name = 0;   // in names
  std::uint32_t track = 0;  // in tracks: a stream or thread
  std::uint32_t group = 0;  // 1 + in names: the process group of a collective; 0: unknown
  RawKind kind = RawKind::kKernel;
};

struct RawTrack {
  std::string process{}, thread{};
  bool autograd = false;  // runs only backward passes
};

struct RawDevice {
  std::int64_t id = 0;
  std::string name{};
  std::int64_t memory_bytes = 0;
};

// A point in time on a track.
struct RawPoint {
  std::uint32_t track = 0;
  std::int64_t time_ns = 0;
};

struct RankEvents {
  NameTable names;
  std::vector<RawTrack> tracks;
  std::vector<RawEvent> events;
  std::vector<RawPoint> forwards;    // where an op began whose backward is in the trace too
  std::vector<MemorySample> memory;  // rank 0
  std::vector<RawDevice> devices;
  std::optional<int> rank;  // said by the trace
  std::optional<int> world;
  std::int64_t base_ns = 0;   // added to times: the same for files of one machine
  std::int64_t invalid = 0;   // events without a usable time
  std::int64_t unclosed = 0;  // begun and never ended
  std::vector<std::string> notes;
  std::string source;  // file, and process where it has several

  // The track of that process and thread.
  std::uint32_t TrackOf(std::string_view process, std::string_view thread);
  bool HasDevice() const;

 private:
  std::unordered_map<std::string, std::uint32_t> track_numbers_;
  std::string key_;
};

// Nothing that one trace holds lies so far apart (52 days): sums of times stay in range.
inline constexpr std::int64_t kFarNs = std::int64_t{1} << 52;

// Removes what begins further from the median beginning, or lasts longer, and counts it as invalid:
// profilers write a time of 0 where they have none. O(n).
void DropFar(RankEvents& events);

}  // namespace foretrain::trace_import
