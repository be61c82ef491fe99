#include "runtime/processes/records.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <vector>

namespace foretrain {
namespace {

template <class T>
std::string PackAll(std::span<const T> values) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

template <class T>
std::vector<T> UnpackAll(std::string_view text) {
  std::vector<T> values(text.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), text.data(), values.size() * sizeof(T));
  return values;
}

struct RoutingHead {
  std::int64_t step = 0;
  std::int32_t rank = 0, block = 0, micro_batch = 0;
  std::int32_t router_bytes = 0;  // of the router's name, behind the head and before the counts
};

struct SummaryHead {
  std::int64_t steps = 0;
  bool stopped = false;
  double seconds = 0;
  std::int64_t recording_ns = 0, thread_ns = 0, spans = 0;
  std::int64_t resident_growth_bytes = 0;
  std::int64_t graphs_made = 0, graph_launches = 0, graph_ops = 0, graphs_refused = 0;
  std::int64_t why_bytes = 0;  // why graphs were refused, behind the head and before the peaks
};
using Peaks = std::array<std::int64_t, kSpaceCount>;

}  // namespace

std::string PackSpans(std::span<const Span> spans, std::int64_t offset_ns) {
  std::vector<Span> moved(spans.begin(), spans.end());
  for (Span& span : moved) {
    span.start_ns += offset_ns;
    span.end_ns += offset_ns;
    span.ready_ns += offset_ns;
  }
  return PackAll<Span>(moved);
}

std::string PackMemory(std::span<const MemorySample> samples, std::int64_t offset_ns) {
  std::vector<MemorySample> moved(samples.begin(), samples.end());
  for (MemorySample& sample : moved) sample.time_ns += offset_ns;
  return PackAll<MemorySample>(moved);
}

std::string PackWindow(const StepWindow& window, std::int64_t offset_ns) {
  StepWindow moved = window;
  moved.start_ns += offset_ns;
  moved.end_ns += offset_ns;
  return PackAll<StepWindow>(std::span(&moved, 1));
}

std::string PackScalars(const StepScalars& scalars, std::int64_t offset_ns) {
  StepScalars moved = scalars;
  moved.time_ns += offset_ns;
  return PackAll<StepScalars>(std::span(&moved, 1));
}

std::string PackRouting(const RoutedCounts& counts) {
  const RoutingHead head{counts.step, counts.rank, counts.block, counts.micro_batch,
                         static_cast<std::int32_t>(counts.router.size())};
  return PackAll<RoutingHead>(std::span(&head, 1)) + counts.router +
         PackAll<std::int32_t>(counts.counts);
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
