#include "traces/export/memory/memory_snapshot.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "traces/export/memory/allocations.h"
#include "traces/export/memory/pickle_writer.h"

namespace foretrain {
namespace {

// Where a rank's segment begins; far apart, so that addresses of ranks differ too.
constexpr std::int64_t kFirstAddress = std::int64_t{1} << 44;
constexpr std::int64_t kSegmentDistance = std::int64_t{1} << 44;
constexpr std::int64_t kNsPerUs = 1000;

class SnapshotWriter {
 public:
  SnapshotWriter(const Timeline& timeline, int layers, PickleWriter& out)
      : timeline_(timeline), layers_(layers), out_(out) {
    for (const MemorySample& sample : timeline.memory) {
      if (sample.space == Space::kDevice) ranks_.insert(sample.rank);
    }
    first_ns_ = std::numeric_limits<std::int64_t>::max();
    for (const MemorySample& of : timeline.memory) first_ns_ = std::min(first_ns_, of.time_ns);
    for (const StepWindow& of : timeline.steps) first_ns_ = std::min(first_ns_, of.start_ns);
  }

  bool HasMemory() const { return !ranks_.empty(); }

  void Write() {
    std::vector<Allocations> segments;  // events are dropped once they are written
    out_.BeginDict().Name("device_traces").BeginList();
    for (int rank = 0; rank <= *ranks_.rbegin(); ++rank) {
      out_.BeginList();
      Allocations of;
      if (ranks_.contains(rank)) of = AllocationsOf(timeline_, rank);
      WriteTrace(rank, of);
      of.events = {};
      segments.push_back(std::move(of));
      out_.EndList();
    }
    out_.EndList().Name("segments").BeginList();
    for (std::size_t rank = 0; rank < segments.size(); ++rank) {
      if (segments[rank].segment_bytes > 0) WriteSegment(static_cast<int>(rank), segments[rank]);
    }
    out_.EndList().Name("external_annotations").BeginList();
    for (const StepWindow& step : timeline_.steps) {
      if (!ranks_.contains(step.rank)) continue;
      WriteMark(step, "START", step.start_ns);
      WriteMark(step, "END", step.end_ns);
    }
    out_.EndList().EndDict();
  }

 private:
  std::int64_t Microseconds(std::int64_t time_ns) const { return (time_ns - first_ns_) / kNsPerUs; }

  static std::int64_t AddressOf(int rank, std::int64_t address) {
    return kFirstAddress + rank * kSegmentDistance + address;
  }

  void WriteTrace(int rank, const Allocations& of) {
    if (of.segment_bytes > 0) {
      const std::int64_t time_ns = of.events.empty() ? first_ns_ : of.events.front().time_ns;
      out_.BeginDict().Field("action", "segment_alloc").Field("addr", AddressOf(rank, 0));
      out_.Field("size", of.segment_bytes).Field("stream", 0);
      out_.Field("time_us", Microseconds(time_ns)).Name("frames").BeginList().EndList().EndDict();
    }
    for (const AllocationEvent& event : of.events) {
      if (!event.is_free) {
        WriteEvent(rank, event, "alloc");
      } else {
        WriteEvent(rank, event, "free_requested");
        WriteEvent(rank, event, "free_completed");
      }
    }
  }

  void WriteEvent(int rank, const AllocationEvent& event, std::string_view action) {
    out_.BeginDict().Field("action", action).Field("addr", AddressOf(rank, event.address));
    out_.Field("size", event.bytes).Field("stream", 0);
    out_.Field("time_us", Microseconds(event.time_ns));
    out_.Field("category", Name(event.category)).Field("user_metadata", Name(event.category));
    WriteFrames(event);
    out_.EndDict();
  }

  // A stack of one frame, and the step below it. Equal ones are one object, as in PyTorch's own
  // snapshots.
  void WriteFrames(const AllocationEvent& event) {
    out_.Name("frames");
    const auto known = stacks_.find({event.op, event.step});
    if (known != stacks_.end()) {
      out_.Recall(known->second);
      return;
    }
    out_.BeginList();
    if (IsValidId(event.op)) {
      const OpId whole = NameKey(InstructionOf(event.op));
      const std::string part = layers_ > 0 ? Describe(whole, layers_) : Describe(whole);
      const auto named = timeline_.op_names.find(NameKey(event.op));
      out_.BeginDict();
      out_.Field("name", named == timeline_.op_names.end() ? part : named->second);
      // The line says the micro-batch.
      out_.Field("filename", part.substr(0, part.find(" mb ")));
      out_.Field("line", UnpackId(event.op).micro_batch).EndDict();
    }
    if (event.step >= 0) {
      out_.BeginDict().Field("name", "step").Field("filename", "step");
      out_.Field("line", event.step).EndDict();
    }
    out_.EndList();
    stacks_[{event.op, event.step}] = out_.Remember();
  }

  void WriteSegment(int rank, const Allocations& of) {
    std::int64_t live = 0;
    for (const AllocationEvent& block : of.live) live += RoundedUp(block.bytes);
    out_.BeginDict().Field("device", rank).Field("address", AddressOf(rank, 0));
    out_.Field("total_size", of.segment_bytes).Field("stream", 0);
    out_.Field("segment_type", "large").Name("segment_pool_id").TupleOfTwo(0, 0);
    out_.Name("is_expandable").Bool(false);
    out_.Field("allocated_size", live).Field("active_size", live);
    out_.Name("frames").BeginList().EndList().Name("blocks").BeginList();
    std::int64_t at = 0;
    for (const AllocationEvent& block : of.live) {
      WriteFree(rank, at, block.address);
      at = block.address + RoundedUp(block.bytes);
      out_.BeginDict().Field("address", AddressOf(rank, block.address));
      out_.Field("size", RoundedUp(block.bytes)).Field("requested_size", block.bytes);
      out_.Field("state", "active_allocated").Field("category", Name(block.category));
      WriteFrames(block);
      out_.EndDict();
    }
    WriteFree(rank, at, of.segment_bytes);
    out_.EndList().EndDict();
  }

  void WriteFree(int rank, std::int64_t from, std::int64_t to) {
    if (from >= to) return;
    out_.BeginDict().Field("address", AddressOf(rank, from)).Field("size", to - from);
    out_.Field("requested_size", to - from).Field("state", "inactive");
    out_.Name("frames").BeginList().EndList().EndDict();
  }

  void WriteMark(const StepWindow& step, std::string_view stage, std::int64_t time_ns) {
    out_.BeginDict().Field("name", "ProfilerStep#" + std::to_string(step.step));
    out_.Field("stage", stage).Field("device", step.rank);
    out_.Field("time_us", Microseconds(time_ns)).EndDict();
  }

  static std::int64_t RoundedUp(std::int64_t bytes) {
    return (bytes + kAllocationUnit - 1) / kAllocationUnit * kAllocationUnit;
  }

  const Timeline& timeline_;
  const int layers_;
  PickleWriter& out_;
  std::set<int> ranks_;
  std::int64_t first_ns_ = 0;
  std::map<std::pair<OpId, std::int32_t>, std::uint32_t> stacks_;  // places in the memo
};

}  // namespace

Result<void> WriteMemorySnapshot(const Timeline& timeline, int layers, FileSystem& files,
                                 const std::string& path) {
  PickleWriter none([](std::string_view) { return Result<void>(); });
  if (!SnapshotWriter(timeline, layers, none).HasMemory()) {
    return Fail(ErrorCode::kInvalidArgument,
                "the run has no device memory to write: it was recorded with --capture off or "
                "launches, or its trace had none");
  }
  return ReplaceFile(files, path, [&](WritableFile& file) {
    PickleWriter out([&file](std::string_view bytes) {
      return file.Append(std::as_bytes(std::span(bytes.data(), bytes.size())));
    });
    SnapshotWriter(timeline, layers, out).Write();
    return out.Finish();
  });
}

}  // namespace foretrain
