#include "traces/import/kineto/kineto.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "base/text.h"
#include "traces/import/kineto/gloo_calls.h"
#include "traces/import/kineto/op_work.h"

namespace foretrain::trace_import {
namespace {

struct CategoryKind {
  std::string_view category;
  RawKind kind;
};

// The categories that say what device or host ran. Others are skipped (python_function, overhead,
// Trace, and gpu_user_annotation, which repeats a range's name above its kernels).
constexpr std::array<CategoryKind, 10> kCategories{{
    {"kernel", RawKind::kKernel},
    {"gpu_memcpy", RawKind::kCopy},
    {"gpu_memset", RawKind::kSet},
    {"cpu_op", RawKind::kHostOp},
    {"operator", RawKind::kHostOp},
    {"cuda_runtime", RawKind::kCall},
    {"cuda_driver", RawKind::kCall},
    {"runtime", RawKind::kCall},
    {"user_annotation", RawKind::kRange},
    {"", RawKind::kHostOp},
}};

// `nullopt` for a category that is skipped. Gloo writes an annotation for the time in which it
// communicates.
std::optional<RawKind> KindOf(const JsonEvent& event) {
  if (event.category == "user_annotation" && event.name.starts_with("gloo:")) {
    return RawKind::kHostOp;
  }
  for (const CategoryKind& known : kCategories) {
    if (known.category == event.category) return known.kind;
  }
  return std::nullopt;
}

// Bytes of a copy or collective; 0 if unknown. A collective states elements and type instead. The
// bounds keep sums inside the 2^56 that the store accepts.
std::int64_t BytesOf(const JsonEvent& event) {
  constexpr std::int64_t kMax = std::int64_t{1} << 56;
  std::int64_t bytes = event.Integer("bytes").value_or(0);
  if (bytes == 0) {
    const std::int64_t elements = event.Integer("In msg nelems").value_or(0);
    const std::int64_t each = ElementOf(event.Text("dtype")).bytes;
    if (elements > 0 && elements <= kMax / 8) bytes = elements * each;
  }
  return bytes >= 0 && bytes <= kMax ? bytes : 0;
}

// A number of a file, 0 if it is missing or below 0 or beyond what a launch can have.
std::int32_t Bounded(std::optional<std::int64_t> number) {
  const std::int64_t value = number.value_or(0);
  return value >= 0 && value <= std::numeric_limits<std::int32_t>::max()
             ? static_cast<std::int32_t>(value)
             : 0;
}

// "64,1,1"; missing numbers are 0.
std::array<std::int32_t, 3> ExtentOf(std::string_view text) {
  std::array<std::int32_t, 3> extent{};
  const std::vector<std::string_view> parts = Split(text, ',');
  for (std::size_t i = 0; i < std::min(parts.size(), extent.size()); ++i) {
    const auto number = ParseInt("extent", parts[i], 0, std::numeric_limits<std::int32_t>::max());
    if (number.has_value()) extent[i] = static_cast<std::int32_t>(*number);
  }
  return extent;
}

// The profiler gives static and dynamic shared memory as one sum.
KernelLaunch LaunchOf(const JsonEvent& event) {
  return {.grid = ExtentOf(event.Text("grid")),
          .block = ExtentOf(event.Text("block")),
          .registers = Bounded(event.Integer("registers per thread")),
          .dynamic_shared_bytes = Bounded(event.Integer("shared memory"))};
}

// As it was recorded; nothing is known of events that are no communication.
RawGroup GroupOf(const JsonEvent& event) {
  RawGroup group{.description = std::string(event.Text("Process Group Description")),
                 .name = std::string(event.Text("Process Group Name")),
                 .ranks = std::string(event.Text("Process Group Ranks"))};
  if (group == RawGroup{}) return group;
  const auto rank = [&event](std::string_view name) {
    const std::int64_t value = event.Integer(name).value_or(-1);
    return value >= 0 && value < (1 << 24) ? value : -1;
  };
  group.size = std::max<std::int64_t>(0, rank("Group size"));
  group.source = rank("Src Rank");
  group.destination = rank("Dst Rank");
  return group;
}

std::int64_t CorrelationOf(const JsonEvent& event) {
  return event.Integer("correlation").value_or(-1);
}

}  // namespace

// Reads the facts that stand outside the events: rank, world size, devices and the base time. They
// come from the file, so each is checked against its range.
void KinetoReader::Take(const JsonNote& note) {
  const auto number = [&note]() -> std::optional<std::int64_t> {
    std::int64_t value = 0;
    const char* const end = note.value.data() + note.value.size();
    const auto read = std::from_chars(note.value.data(), end, value);
    if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
    return value;
  };
  if (note.outer == "distributedInfo") {
    const std::optional<std::int64_t> value = number();
    if (!value.has_value() || *value < 0 || *value > (1 << 24)) return;
    if (note.name == "rank") out_.rank = static_cast<int>(*value);
    if (note.name == "world_size") out_.world = static_cast<int>(*value);
    if (note.name == "pg_count") process_groups_ = *value;
  } else if (note.outer == "deviceProperties") {
    if (note.name.empty()) out_.devices.emplace_back();
    if (out_.devices.empty()) return;
    RawDevice& device = out_.devices.back();
    if (note.name == "name") device.name = note.value;
    if (note.name == "id") device.id = number().value_or(0);
    if (note.name == "totalGlobalMem") device.memory_bytes = number().value_or(0);
    // The profiler writes the major number before the minor one.
    if (note.name == "computeMajor") device.capability = CapabilityOf(number().value_or(0), 0);
    if (note.name == "computeMinor" && device.capability > 0) {
      device.capability = CapabilityOf(device.capability / 10, number().value_or(0));
    }
  } else if (note.outer.empty() && note.name == "baseTimeNanoseconds") {
    constexpr std::int64_t kMax = std::int64_t{1} << 61;
    const std::int64_t base = number().value_or(0);
    out_.base_ns = base >= 0 && base < kMax ? base : 0;
  }
}

void KinetoReader::Take(const JsonEvent& event) {
  const char phase = event.phase.size() == 1 ? event.phase[0] : '\0';
  switch (phase) {
    case 'X':
      return TakeComplete(event);
    case 'B':
      return TakeBegin(event);
    case 'E':
      return TakeEnd(event);
    case 's':
    case 'f':
      return TakeFlow(event);
    case 'i':
    case 'I':
      return TakeInstant(event);
    case 'M':
      return TakeMetadata(event);
    default:
      return;
  }
}

// An 'X' event carries its own duration. Host ops and ranges get no correlation: only calls and
// device work are joined by it.
void KinetoReader::TakeComplete(const JsonEvent& event) {
  const std::optional<RawKind> kind = KindOf(event);
  if (!kind.has_value()) return;
  const std::optional<std::int64_t> start = event.TimeNs();
  const std::optional<std::int64_t> length = event.DurationNs();
  if (!start.has_value() || !length.has_value() || *length < 0 || event.name.empty()) {
    ++out_.invalid;
    return;
  }
  RawEvent raw{.start_ns = *start, .end_ns = *start + *length, .kind = *kind};
  raw.name = out_.names.Of(event.name);
  raw.track = out_.TrackOf(event.process, event.thread);
  if (*kind != RawKind::kHostOp && *kind != RawKind::kRange) raw.correlation = CorrelationOf(event);
  raw.bytes = BytesOf(event);
  if (const RawGroup group = GroupOf(event); group != RawGroup{}) raw.group = out_.GroupOf(group);
  const std::string_view collective = event.Text("Collective name");
  if (!collective.empty()) raw.collective = 1 + out_.names.Of(collective);
  if (*kind == RawKind::kKernel) raw.detail = out_.LaunchOf(LaunchOf(event));
  if (*kind == RawKind::kHostOp) raw.detail = out_.WorkOf(WorkOf(event));
  last_ns_ = std::max(last_ns_, raw.end_ns);
  out_.events.push_back(raw);
}

void KinetoReader::TakeBegin(const JsonEvent& event) {
  const std::optional<RawKind> kind = KindOf(event);
  const std::optional<std::int64_t> start = event.TimeNs();
  if (!kind.has_value()) return;
  if (!start.has_value() || event.name.empty()) {
    ++out_.invalid;
    return;
  }
  last_ns_ = std::max(last_ns_, *start);
  // Events of a 'B'/'E' pair nest, so each track keeps a stack of open ones.
  open_[out_.TrackOf(event.process, event.thread)].push_back(
      {*start, out_.names.Of(event.name), *kind});
}

void KinetoReader::TakeEnd(const JsonEvent& event) {
  const std::optional<std::int64_t> end = event.TimeNs();
  const std::uint32_t track = out_.TrackOf(event.process, event.thread);
  std::vector<Open>& open = open_[track];
  // An end without a beginning: the profiler started in between.
  if (open.empty()) return;
  const Open begun = open.back();
  open.pop_back();
  if (!end.has_value() || *end < begun.start_ns) {
    ++out_.invalid;
    return;
  }
  last_ns_ = std::max(last_ns_, *end);
  RawEvent raw{.start_ns = begun.start_ns, .end_ns = *end, .kind = begun.kind};
  raw.name = begun.name;
  raw.track = track;
  out_.events.push_back(raw);
}

// Keeps two kinds of flows: from a launch to its kernel, and from a forward op to its backward.
void KinetoReader::TakeFlow(const JsonEvent& event) {
  const std::optional<std::int64_t> time = event.TimeNs();
  if (!time.has_value()) return;
  const std::uint32_t track = out_.TrackOf(event.process, event.thread);
  if (event.category == "ac2g") launches_.push_back({{track, *time}, NumberOf(event.id)});
  if (event.category == "fwdbwd" && event.phase == "s") out_.forwards.push_back({track, *time});
}

// Memory as PyTorch's allocator reports it: each change with the total then allocated. For the host
// no total is recorded, so it is summed from the changes.
void KinetoReader::TakeInstant(const JsonEvent& event) {
  if (event.name != "[memory]") return;
  const std::optional<std::int64_t> time = event.TimeNs();
  const std::optional<std::int64_t> change = event.Integer("Bytes");
  if (!time.has_value() || !change.has_value()) {
    ++out_.invalid;
    return;
  }
  constexpr std::int64_t kMax = std::int64_t{1} << 56;
  const bool on_device = event.Integer("Device Type").value_or(0) != 0;
  std::int64_t bytes = event.Integer("Total Allocated").value_or(0);
  if (!on_device) {  // no total exists for the host
    if (*change > kMax || *change < -kMax) return;
    host_bytes_ = std::clamp<std::int64_t>(host_bytes_ + *change, 0, kMax);
    if (bytes <= 0) bytes = host_bytes_;
  }
  if (bytes < 0 || bytes > kMax) return;
  out_.memory.push_back({.time_ns = *time,
                         .bytes = bytes,
                         .rank = 0,
                         .category = Category::kWorkspace,
                         .space = on_device ? Space::kDevice : Space::kHost});
}

// The thread that runs backward passes is recognized by its name.
void KinetoReader::TakeMetadata(const JsonEvent& event) {
  if (event.name != "thread_name") return;
  const std::string_view name = event.Text("name");
  if (name.find("autograd") != std::string_view::npos) {
    out_.tracks[out_.TrackOf(event.process, event.thread)].autograd = true;
  }
}

// Events that never ended were running when the profiler stopped: they end at the last known time.
void KinetoReader::CloseOpen() {
  for (const auto& [track, stack] : open_) {
    for (const Open& open : stack) {
      ++out_.unclosed;
      out_.events.push_back({.start_ns = open.start_ns,
                             .end_ns = std::max(last_ns_, open.start_ns),
                             .name = open.name,
                             .track = track,
                             .kind = open.kind});
    }
  }
}

// Flow ids may be any text: numbers are kept, other texts get numbers above every correlation.
std::int64_t KinetoReader::NumberOf(const std::string& flow) {
  std::int64_t number = 0;
  const char* const end = flow.data() + flow.size();
  const auto read = std::from_chars(flow.data(), end, number);
  if (read.ec == std::errc() && read.ptr == end && number >= 0) return number;
  // Correlations have 32 bits; these numbers start above them.
  constexpr std::int64_t kFirst = std::int64_t{1} << 40;
  return flow_numbers_.try_emplace(flow, kFirst + std::ssize(flow_numbers_)).first->second;
}

// Older traces link a call and its device work by a flow ("ac2g") only. An event without a
// correlation takes the number of the flow that starts or ends where the event begins.
void KinetoReader::JoinLaunches() {
  if (launches_.empty()) return;
  using Place = std::pair<std::uint32_t, std::int64_t>;  // track and time
  std::map<Place, std::int64_t> at;
  for (const Flow& flow : launches_) {
    at.try_emplace({flow.at.track, flow.at.time_ns}, flow.number);
  }
  for (RawEvent& event : out_.events) {
    if (event.correlation >= 0 || (event.kind != RawKind::kCall && !IsOnDevice(event.kind))) {
      continue;
    }
    const auto found = at.find({event.track, event.start_ns});
    if (found != at.end()) event.correlation = found->second;
  }
}

// Flows are needed only if some call or kernel lacks its own correlation.
RankEvents KinetoReader::Finish() {
  CloseOpen();
  const bool all_known =
      std::all_of(out_.events.begin(), out_.events.end(), [](const RawEvent& event) {
        return event.correlation >= 0 || (event.kind != RawKind::kCall && !IsOnDevice(event.kind));
      });
  if (!all_known) JoinLaunches();
  JoinGlooCalls(out_, process_groups_ == 1);
  return std::move(out_);
}

}  // namespace foretrain::trace_import
