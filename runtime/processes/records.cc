#include "runtime/processes/records.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/processes/socket.h"

namespace foretrain {
namespace {

template <class T>
std::string PackAll(std::span<const T> values) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

// Bytes after the last whole value are dropped. The copy gives the values their alignment, which
// the bytes of a message do not have.
template <class T>
std::vector<T> UnpackAll(std::string_view text) {
  std::vector<T> values(text.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), text.data(), values.size() * sizeof(T));
  return values;
}

// Appends values one after the other: texts and lists with their length, plain structs as they are.
class Packer {
 public:
  template <class... T>
  bool operator()(const T&... values) {
    (Put(values), ...);
    return true;
  }
  std::string Take() { return std::move(packed_); }

 private:
  void Put(std::string_view text) {
    packed_ += BytesOfNumber(text.size(), 8);
    packed_ += text;
  }
  void Put(const std::string& text) { Put(std::string_view(text)); }
  template <class T>
  void Put(const std::vector<T>& values) {
    Put(std::string_view(PackAll<T>(values)));
  }
  template <class T>
  void Put(const T& value) {
    packed_ += PackAll<T>(std::span(&value, 1));
  }
  std::string packed_;
};

// Takes back what a Packer appended; false if too little is left, and from then on.
class Reader {
 public:
  explicit Reader(std::string_view rest) : rest_(rest) {}
  bool AtEnd() const { return rest_.empty(); }
  template <class... T>
  bool operator()(T&... values) {
    return (... && Get(values));
  }

 private:
  bool Next(std::uint64_t bytes, std::string_view& text) {
    const bool enough = rest_.size() >= bytes;
    text = rest_.substr(0, bytes);
    rest_ = enough ? rest_.substr(bytes) : std::string_view();
    return enough;
  }
  bool Next(std::string_view& text) { return Next(8, text) && Next(NumberOfBytes(text), text); }
  bool Get(std::string& value) {
    std::string_view text;
    if (!Next(text)) return false;
    value = text;
    return true;
  }
  template <class T>
  bool Get(std::vector<T>& values) {
    std::string_view text;
    if (!Next(text)) return false;
    values = UnpackAll<T>(text);
    return true;
  }
  template <class T>
  bool Get(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::string_view text;
    if (!Next(sizeof value, text)) return false;
    std::memcpy(&value, text.data(), sizeof value);
    return true;
  }
  std::string_view rest_;
};

// The members of each record, in the order in which a Packer writes and a Reader reads them.
template <class Bytes>
bool Members(Bytes& bytes, Counter& of) {
  return bytes(of.name, of.rank, of.step, of.time_ns, of.value);
}
template <class Bytes>
bool Members(Bytes& bytes, CaptureReport& of) {  // the kernels follow, as JSON
  return bytes(of.records, of.problem, of.counters_problem, of.counts, of.dropped, of.late,
               of.outside, of.clock_error_ns, of.clocks);
}
template <class Bytes>
bool Members(Bytes& bytes, RoutedCounts& of) {
  return bytes(of.step, of.rank, of.block, of.micro_batch, of.router, of.counts);
}
template <class Bytes>
bool Members(Bytes& bytes, RunSummary& of) {
  GraphUse& graphs = of.graphs;
  return bytes(of.steps, of.stopped, of.seconds, of.recording, of.resident_growth_bytes,
               graphs.made, graphs.launches, graphs.ops, graphs.refused, graphs.why_refused,
               of.peak_by_space);
}

// A message that ends within a counter delivers none of its counters.
void DeliverCounters(const std::string& text, RunSink& sink) {
  std::vector<Counter> counters;
  for (Reader reader(text); !reader.AtEnd();) {
    if (!Members(reader, counters.emplace_back())) return;
  }
  sink.OnCounters(counters);
}

void DeliverCapture(const std::string& text, RunSink& sink) {
  Reader reader(text);
  int rank = 0;
  CaptureReport report;
  std::string kernels;
  if (!reader(rank) || !Members(reader, report) || !reader(kernels)) return;
  auto table = KernelsFromJson(kernels, "kernels");
  if (!table.has_value()) return;
  report.kernels = *std::move(table);
  sink.OnCapture(rank, report);
}

}  // namespace

// The sender converts times, since only it knows how its clock relates to rank 0's. Rank 0 then
// stores records of all processes without change.
std::string PackSpans(std::span<const Span> spans, const ClockFit& clock) {
  std::vector<Span> moved(spans.begin(), spans.end());
  for (Span& span : moved) {
    span.start_ns = clock.ToHost(span.start_ns);
    span.end_ns = clock.ToHost(span.end_ns);
    span.ready_ns = clock.ToHost(span.ready_ns);
  }
  return PackAll<Span>(moved);
}

std::string PackMemory(std::span<const MemorySample> samples, const ClockFit& clock) {
  std::vector<MemorySample> moved(samples.begin(), samples.end());
  for (MemorySample& sample : moved) sample.time_ns = clock.ToHost(sample.time_ns);
  return PackAll<MemorySample>(moved);
}

std::string PackWindow(const StepWindow& window, const ClockFit& clock) {
  StepWindow moved = window;
  moved.start_ns = clock.ToHost(moved.start_ns);
  moved.end_ns = clock.ToHost(moved.end_ns);
  return PackAll<StepWindow>(std::span(&moved, 1));
}

std::string PackScalars(const StepScalars& scalars, const ClockFit& clock) {
  StepScalars moved = scalars;
  moved.time_ns = clock.ToHost(moved.time_ns);
  return PackAll<StepScalars>(std::span(&moved, 1));
}

std::string PackRouting(RoutedCounts counts) {
  Packer packer;
  Members(packer, counts);
  return packer.Take();
}

std::string PackCounters(std::span<const Counter> counters, const ClockFit& clock) {
  Packer packer;
  for (Counter counter : counters) {
    counter.time_ns = clock.ToHost(counter.time_ns);
    Members(packer, counter);
  }
  return packer.Take();
}

// The clock readings are moved to rank 0's clock; the error of that conversion is added to their
// width.
std::string PackCapture(int rank, CaptureReport report, const ClockFit& clock,
                        std::span<const ClockSample> exchanges) {
  for (ClockSample& sample : report.clocks) {
    sample.host_ns = clock.ToHost(sample.host_ns);
    sample.width_ns += 2 * clock.error_ns;
  }
  if (report.clocks.empty()) report.clocks.assign(exchanges.begin(), exchanges.end());
  report.clock_error_ns += clock.error_ns;
  Packer packer;
  packer(rank);
  Members(packer, report);
  packer(KernelsToJson(report.kernels));
  return packer.Take();
}

// One letter for each RecordMessage.
bool IsRecord(char what) {
  constexpr std::string_view kAll("XMWCRNV");
  return kAll.find(what) != std::string_view::npos;
}

void Deliver(char what, const std::string& text, RunSink& sink) {
  if (what == kSpans) sink.OnSpans(UnpackAll<Span>(text));
  if (what == kMemory) sink.OnMemory(UnpackAll<MemorySample>(text));
  if (what == kWindow) {
    for (const StepWindow& window : UnpackAll<StepWindow>(text)) sink.OnStepWindow(window);
  }
  if (what == kScalars) {
    for (const StepScalars& scalars : UnpackAll<StepScalars>(text)) sink.OnScalars(scalars);
  }
  if (what == kCounters) DeliverCounters(text, sink);
  if (what == kCapture) DeliverCapture(text, sink);
  if (what == kRouting) {
    RoutedCounts counts;
    if (Reader reader(text); Members(reader, counts)) sink.OnRouting(counts);
  }
}

std::string PackSummary(RunSummary summary) {
  Packer packer;
  Members(packer, summary);
  return packer.Take();
}

// A text that is too short gives an empty summary.
RunSummary UnpackSummary(const std::string& text) {
  RunSummary summary;
  if (Reader reader(text); !Members(reader, summary)) return {};
  for (const auto& peaks : summary.peak_by_space) {
    summary.peak_bytes.push_back(peaks[static_cast<std::size_t>(Space::kDevice)]);
  }
  return summary;
}

// Processes run at the same time: the run lasts as long as the longest. Work, counts and memory of
// all add up.
void AddSummary(const RunSummary& of, RunSummary& to) {
  to.seconds = std::max(to.seconds, of.seconds);
  to.recording.recording_ns += of.recording.recording_ns;
  to.recording.thread_ns += of.recording.thread_ns;
  to.recording.spans += of.recording.spans;
  to.resident_growth_bytes += of.resident_growth_bytes;
  to.graphs.Add(of.graphs);
  to.peak_bytes.insert(to.peak_bytes.end(), of.peak_bytes.begin(), of.peak_bytes.end());
  to.peak_by_space.insert(to.peak_by_space.end(), of.peak_by_space.begin(), of.peak_by_space.end());
}

}  // namespace foretrain
