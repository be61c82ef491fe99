#include "runtime/processes/records.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
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

// The heads below have only members of fixed size, so that they can be copied as bytes. Texts of
// variable length follow them.
struct RoutingHead {
  std::int64_t step = 0;
  std::int32_t rank = 0, block = 0, micro_batch = 0;
  std::int32_t router_bytes = 0;  // length of the router's name, which follows the head
};

struct SummaryHead {
  std::int64_t steps = 0;
  bool stopped = false;
  double seconds = 0;
  std::int64_t recording_ns = 0, thread_ns = 0, spans = 0;
  std::int64_t resident_growth_bytes = 0;
  std::int64_t graphs_made = 0, graph_launches = 0, graph_ops = 0, graphs_refused = 0;
  std::int64_t why_bytes = 0;  // length of the reason for refused graphs, which follows the head
};
using Peaks = std::array<std::int64_t, kSpaceCount>;

struct CounterBody {  // follows the name
  std::int64_t time_ns = 0;
  double value = 0;
  std::int32_t rank = 0, step = 0;
};

struct CaptureHead {
  std::int64_t rank = 0, records = 0;
  ActivityCounts counts;
  std::int64_t dropped = 0, late = 0, outside = 0, clock_error_ns = 0;
};

// Appends a text with its length, or a plain struct.
void Append(std::string& packed, std::string_view text) {
  packed += BytesOfNumber(text.size(), 8);
  packed += text;
}
template <class T>
void Append(std::string& packed, const T& value) {
  packed += PackAll<T>(std::span(&value, 1));
}

// Takes back what Append added. If too little is left, it returns false and takes nothing any more.
class Reader {
 public:
  explicit Reader(std::string_view rest) : rest_(rest) {}
  bool AtEnd() const { return rest_.empty(); }

  template <class T>
  bool Take(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (rest_.size() < sizeof value) return Nothing();
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return true;
  }
  bool Take(std::string& text) {
    if (rest_.size() < 8) return Nothing();
    const std::uint64_t bytes = NumberOfBytes(rest_.substr(0, 8));
    rest_.remove_prefix(8);
    if (rest_.size() < bytes) return Nothing();
    text = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return true;
  }

 private:
  bool Nothing() {
    rest_ = {};
    return false;
  }
  std::string_view rest_;
};

// A message that ends within a counter delivers none of its counters.
void DeliverCounters(const std::string& text, RunSink& sink) {
  std::vector<Counter> counters;
  Reader reader(text);
  while (!reader.AtEnd()) {
    std::string name;
    CounterBody body;
    if (!reader.Take(name) || !reader.Take(body)) return;
    counters.push_back({name, body.rank, body.step, body.time_ns, body.value});
  }
  sink.OnCounters(counters);
}

// The order of the parts is that of PackCapture: head, problem, clock readings, then name and total
// of each kernel.
void DeliverCapture(const std::string& text, RunSink& sink) {
  Reader reader(text);
  CaptureHead head;
  CaptureReport report;
  std::string clocks;
  if (!reader.Take(head) || !reader.Take(report.problem) || !reader.Take(clocks)) return;
  report.records = head.records != 0;
  report.counts = head.counts;
  report.dropped = head.dropped;
  report.late = head.late;
  report.outside = head.outside;
  report.clock_error_ns = head.clock_error_ns;
  report.clocks = UnpackAll<ClockSample>(clocks);
  while (!reader.AtEnd()) {
    std::string name;
    KernelTotal total;
    if (!reader.Take(name) || !reader.Take(total)) return;
    report.kernels[name] = total;
  }
  sink.OnCapture(static_cast<int>(head.rank), report);
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

std::string PackRouting(const RoutedCounts& counts) {
  const RoutingHead head{counts.step, counts.rank, counts.block, counts.micro_batch,
                         static_cast<std::int32_t>(counts.router.size())};
  return PackAll<RoutingHead>(std::span(&head, 1)) + counts.router +
         PackAll<std::int32_t>(counts.counts);
}

std::string PackCounters(std::span<const Counter> counters, const ClockFit& clock) {
  std::string packed;
  for (const Counter& counter : counters) {
    Append(packed, std::string_view(counter.name));
    Append(packed,
           CounterBody{clock.ToHost(counter.time_ns), counter.value, counter.rank, counter.step});
  }
  return packed;
}

// The clock readings are moved to rank 0's clock; the error of that conversion is added to their
// width.
std::string PackCapture(int rank, const CaptureReport& report, const ClockFit& clock,
                        std::span<const ClockSample> exchanges) {
  std::vector<ClockSample> clocks = report.clocks;
  for (ClockSample& sample : clocks) {
    sample.host_ns = clock.ToHost(sample.host_ns);
    sample.width_ns += 2 * clock.error_ns;
  }
  if (clocks.empty()) clocks.assign(exchanges.begin(), exchanges.end());
  std::string packed;
  Append(packed, CaptureHead{rank, report.records, report.counts, report.dropped, report.late,
                             report.outside, report.clock_error_ns + clock.error_ns});
  Append(packed, std::string_view(report.problem));
  Append(packed, std::string_view(PackAll<ClockSample>(clocks)));
  for (const auto& [name, total] : report.kernels) {
    Append(packed, std::string_view(name));
    Append(packed, total);
  }
  return packed;
}

// One letter for each RecordMessage.
bool IsRecord(char what) {
  constexpr std::string_view kAll("XMWCRNV");
  return kAll.find(what) != std::string_view::npos;
}

// The length of the router's name comes from the message: substr bounds it by what is left.
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
  if (what == kRouting && text.size() >= sizeof(RoutingHead)) {
    std::string_view rest(text);
    const RoutingHead head = UnpackAll<RoutingHead>(rest.substr(0, sizeof head)).front();
    rest.remove_prefix(sizeof head);
    const std::string_view router = rest.substr(0, static_cast<std::size_t>(head.router_bytes));
    sink.OnRouting({head.step, head.rank, head.block, head.micro_batch, std::string(router),
                    UnpackAll<std::int32_t>(rest.substr(router.size()))});
  }
}

std::string PackSummary(const RunSummary& summary) {
  const SummaryHead head{summary.steps,
                         summary.stopped,
                         summary.seconds,
                         summary.recording.recording_ns,
                         summary.recording.thread_ns,
                         summary.recording.spans,
                         summary.resident_growth_bytes,
                         summary.graphs.made,
                         summary.graphs.launches,
                         summary.graphs.ops,
                         summary.graphs.refused,
                         static_cast<std::int64_t>(summary.graphs.why_refused.size())};
  return PackAll<SummaryHead>(std::span(&head, 1)) + summary.graphs.why_refused +
         PackAll<Peaks>(summary.peak_by_space);
}

// A text shorter than the head gives an empty summary.
RunSummary UnpackSummary(const std::string& text) {
  RunSummary summary;
  if (text.size() < sizeof(SummaryHead)) return summary;
  std::string_view rest(text);
  const SummaryHead head = UnpackAll<SummaryHead>(rest.substr(0, sizeof head)).front();
  rest.remove_prefix(sizeof head);
  summary.steps = head.steps;
  summary.stopped = head.stopped;
  summary.seconds = head.seconds;
  summary.recording.recording_ns = head.recording_ns;
  summary.recording.thread_ns = head.thread_ns;
  summary.recording.spans = head.spans;
  summary.resident_growth_bytes = head.resident_growth_bytes;
  const std::string_view why = rest.substr(0, static_cast<std::size_t>(head.why_bytes));
  summary.graphs = {head.graphs_made, head.graph_launches, head.graph_ops, head.graphs_refused,
                    std::string(why)};
  summary.peak_by_space = UnpackAll<Peaks>(rest.substr(why.size()));
  for (const Peaks& peaks : summary.peak_by_space) {
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
