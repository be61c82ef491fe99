#include "traces/import/kineto.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

namespace foretrain::trace_import {
namespace {

struct CategoryKind {
  std::string_view category;
  RawKind kind;
};

// Others (python_function, overhead, Trace, gpu_user_annotation, which repeats a range's name above
// its kernels) do not say what the device or the host ran.
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

std::optional<RawKind> KindOf(std::string_view category) {
  for (const CategoryKind& known : kCategories) {
    if (known.category == category) return known.kind;
  }
  return std::nullopt;
}

std::int64_t BytesOfType(std::string_view type) {
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 16> kTypes{{
      {"BFloat16", 2},
      {"Half", 2},
      {"Float", 4},
      {"Double", 8},
      {"Long", 8},
      {"Int", 4},
      {"Short", 2},
      {"Byte", 1},
      {"Char", 1},
      {"Bool", 1},
      {"Float8_e4m3fn", 1},
      {"Float8_e5m2", 1},
      {"bfloat16", 2},
      {"float16", 2},
      {"float32", 4},
      {"float", 4},
  }};
  for (const auto& [name, bytes] : kTypes) {
    if (name == type) return bytes;
  }
  return 0;
}

// Of a copy or collective; the store takes up to 2^56.
std::int64_t BytesOf(const JsonEvent& event) {
  constexpr std::int64_t kMost = std::int64_t{1} << 56;
  std::int64_t bytes = event.Integer("bytes").value_or(0);
  if (bytes == 0) {
    const std::int64_t elements = event.Integer("In msg nelems").value_or(0);
    const std::int64_t each = BytesOfType(event.Text("dtype"));
    if (elements > 0 && elements <= kMost / 8) bytes = elements * each;
  }
  return bytes >= 0 && bytes <= kMost ? bytes : 0;
}

std::int64_t CorrelationOf(const JsonEvent& event) {
  return event.Integer("correlation").value_or(-1);
}

}  // namespace

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
  } else if (note.outer == "deviceProperties") {
    if (note.name.empty()) out_.devices.emplace_back();
    if (out_.devices.empty()) return;
    RawDevice& device = out_.devices.back();
    if (note.name == "name") device.name = note.value;
    if (note.name == "id") device.id = number().value_or(0);
    if (note.name == "totalGlobalMem") device.memory_bytes = number().value_or(0);
  } else if (note.outer.empty() && note.name == "baseTimeNanoseconds") {
    constexpr std::int64_t kMost = std::int64_t{1} << 61;
    const std::int64_t base = number().value_or(0);
    out_.base_ns = base >= 0 && base < kMost ? base : 0;
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

void KinetoReader::TakeComplete(const JsonEvent& event) {
  const std::optional<RawKind> kind = KindOf(event.category);
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
  const std::string_view group = event.Text("Process Group Description");
  if (!group.empty()) raw.group = 1 + out_.names.Of(group);
  last_ns_ = std::max(last_ns_, raw.end_ns);
  out_.events.push_back(raw);
}

void KinetoReader::TakeBegin(const JsonEvent& event) {
  const std::optional<RawKind> kind = KindOf(event.category);
  const std::optional<std::int64_t> start = event.TimeNs();
  if (!kind.has_value()) return;
  if (!start.has_value() || event.name.empty()) {
    ++out_.invalid;
    return;
  }
  last_ns_ = std::max(last_ns_, *start);
  open_[out_.TrackOf(event.process, event.thread)].push_back(
      {*start, out_.names.Of(event.name), *kind});
}

void KinetoReader::TakeEnd(const JsonEvent& event) {
  const std::optional<std::int64_t> end = event.TimeNs();
  const std::uint32_t track = out_.TrackOf(event.process, event.thread);
  std::vector<Open>& open = open_[track];
  // An end without a beginning began before the profiler did.
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

void KinetoReader::TakeFlow(const JsonEvent& event) {
  const std::optional<std::int64_t> time = event.TimeNs();
  if (!time.has_value()) return;
  const std::uint32_t track = out_.TrackOf(event.process, event.thread);
  if (event.category == "ac2g") launches_.push_back({{track, *time}, NumberOf(event.id)});
  if (event.category == "fwdbwd" && event.phase == "s") out_.forwards.push_back({track, *time});
}

// PyTorch's allocator reports each change with the bytes that are then allocated.
void KinetoReader::TakeInstant(const JsonEvent& event) {
  if (event.name != "[memory]") return;
  const std::optional<std::int64_t> time = event.TimeNs();
  const std::optional<std::int64_t> change = event.Integer("Bytes");
  if (!time.has_value() || !change.has_value()) {
    ++out_.invalid;
    return;
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 56;
  const bool on_device = event.Integer("Device Type").value_or(0) != 0;
  std::int64_t bytes = event.Integer("Total Allocated").value_or(0);
  if (!on_device) {  // of the host no total is kept
    if (*change > kMost || *change < -kMost) return;
    host_bytes_ = std::clamp<std::int64_t>(host_bytes_ + *change, 0, kMost);
    if (bytes <= 0) bytes = host_bytes_;
  }
  if (bytes < 0 || bytes > kMost) return;
  out_.memory.push_back({.time_ns = *time,
                         .bytes = bytes,
                         .rank = 0,
                         .category = Category::kWorkspace,
                         .space = on_device ? Space::kDevice : Space::kHost});
}

void KinetoReader::TakeMetadata(const JsonEvent& event) {
  if (event.name != "thread_name") return;
  const std::string_view name = event.Text("name");
  if (name.find("autograd") != std::string_view::npos) {
    out_.tracks[out_.TrackOf(event.process, event.thread)].autograd = true;
  }
}

// What never ended was running when the profiler stopped.
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

std::int64_t KinetoReader::NumberOf(const std::string& flow) {
  std::int64_t number = 0;
  const char* const end = flow.data() + flow.size();
  const auto read = std::from_chars(flow.data(), end, number);
  if (read.ec == std::errc() && read.ptr == end && number >= 0) return number;
  // Beyond all correlations: those are of 32 bits.
  constexpr std::int64_t kFirst = std::int64_t{1} << 40;
  return flow_numbers_.try_emplace(flow, kFirst + std::ssize(flow_numbers_)).first->second;
}

// Gives calls and device work without a correlation of their own that of the flow between them.
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

RankEvents KinetoReader::Finish() {
  CloseOpen();
  const bool all_known =
      std::all_of(out_.events.begin(), out_.events.end(), [](const RawEvent& event) {
        return event.correlation >= 0 || (event.kind != RawKind::kCall && !IsOnDevice(event.kind));
      });
  if (!all_known) JoinLaunches();
  return std::move(out_);
}

}  // namespace foretrain::trace_import
