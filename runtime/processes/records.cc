#include "runtime/processes/records.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "runtime/processes/wire/packing.h"

namespace foretrain {

// The members of each record, in the order in which a Packer writes and a Reader reads them.
template <class Bytes>
bool Members(Bytes& bytes, Span& of) {
  return bytes(of.start_ns, of.end_ns, of.op, of.bytes, of.ready_ns, of.step, of.rank, of.queue,
               of.op_class);
}
template <class Bytes>
bool Members(Bytes& bytes, MemorySample& of) {
  return bytes(of.time_ns, of.bytes, of.rank, of.category, of.space);
}
template <class Bytes>
bool Members(Bytes& bytes, StepWindow& of) {
  return bytes(of.start_ns, of.end_ns, of.step, of.rank);
}
template <class Bytes>
bool Members(Bytes& bytes, StepScalars& of) {
  return bytes(of.step, of.time_ns, of.rank, of.loss, of.squared_norm, of.loss_scale, of.skipped);
}
template <class Bytes>
bool Members(Bytes& bytes, Counter& of) {
  return bytes(of.name, of.rank, of.step, of.time_ns, of.value);
}
template <class Bytes>
bool Members(Bytes& bytes, ActivityCounts& of) {
  return bytes(of.records, of.invalid, of.unknown, of.device_ns, of.owned_ns, of.launches,
               of.launch_ns, of.waits, of.wait_ns, of.overhead_ns);
}
template <class Bytes>
bool Members(Bytes& bytes, ClockSample& of) {
  return bytes(of.host_ns, of.device_ns, of.width_ns);
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
bool Members(Bytes& bytes, RecordingCost& of) {
  return bytes(of.recording_ns, of.thread_ns, of.spans);
}
template <class Bytes>
bool Members(Bytes& bytes, RunSummary& of) {
  GraphUse& graphs = of.graphs;
  return bytes(of.steps, of.stopped, of.seconds, of.recording, of.resident_growth_bytes,
               graphs.made, graphs.launches, graphs.ops, graphs.refused, graphs.why_refused,
               of.peak_by_space);
}

namespace {

// Two years in nanoseconds, and more bytes than a machine has. Sums of the numbers of all ranks do
// not overflow.
constexpr std::int64_t kMax = std::int64_t{1} << 56;
// A device's clock may count from 1970.
constexpr std::int64_t kMaxDeviceNs = std::int64_t{1} << 62;

bool IsTime(std::int64_t ns) { return ns >= -kMax && ns <= kMax; }
template <class... T>
bool AreCounts(T... numbers) {
  return (... && (numbers >= 0 && numbers <= kMax));
}
bool IsStep(std::int64_t step, const RecordLimits& in) {
  return step >= in.first_step && step < in.end_step;
}

bool IsValid(const ClockSample& of) {
  return IsTime(of.host_ns) && of.device_ns >= -kMax && of.device_ns <= kMaxDeviceNs &&
         AreCounts(of.width_ns);
}

// A device's work without a known op has no step either.
bool IsValid(const Span& of, const RecordLimits& in) {
  const bool known = IsValidId(of.op) && of.rank == in.rank && IsStep(of.step, in);
  const bool unknown = of.op == kNoOp && of.rank >= 0 && of.rank < in.world && of.step == -1;
  return (known || unknown) && IsTime(of.start_ns) && IsTime(of.end_ns) && IsTime(of.ready_ns) &&
         of.start_ns <= of.end_ns && AreCounts(of.bytes);
}
bool IsValid(const MemorySample& of, const RecordLimits& in) {
  return of.rank == in.rank && IsTime(of.time_ns) && AreCounts(of.bytes);
}
bool IsValid(const StepWindow& of, const RecordLimits& in) {
  return of.rank == in.rank && IsStep(of.step, in) && IsTime(of.start_ns) && IsTime(of.end_ns) &&
         of.start_ns <= of.end_ns;
}
bool IsValid(const StepScalars& of, const RecordLimits& in) {
  return of.rank == in.rank && IsStep(of.step, in) && IsTime(of.time_ns);
}
bool IsValid(const Counter& of, const RecordLimits& in) {
  return of.rank == in.rank && (of.step == -1 || IsStep(of.step, in)) && IsTime(of.time_ns);
}
bool IsValid(const RoutedCounts& of, const RecordLimits& in) {
  return of.rank == in.rank && IsStep(of.step, in) && AreCounts(of.block, of.micro_batch) &&
         std::all_of(of.counts.begin(), of.counts.end(), [](int n) { return n >= 0; });
}
bool IsValid(const CaptureReport& of) {
  const ActivityCounts& counts = of.counts;
  return AreCounts(counts.records, counts.invalid, counts.unknown, counts.device_ns,
                   counts.owned_ns, counts.launches, counts.launch_ns, counts.waits, counts.wait_ns,
                   counts.overhead_ns, of.dropped, of.late, of.outside, of.clock_error_ns) &&
         std::all_of(of.clocks.begin(), of.clocks.end(),
                     [](const ClockSample& sample) { return IsValid(sample); });
}

// The records of a message; `nullopt` if one is damaged or outside the limits.
template <class T>
std::optional<std::vector<T>> UnpackAll(const std::string& text, const RecordLimits& in) {
  std::vector<T> values;
  if (!Unpack(text, values)) return std::nullopt;
  for (const T& value : values) {
    if (!IsValid(value, in)) return std::nullopt;
  }
  return values;
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
  return Pack(moved);
}

std::string PackMemory(std::span<const MemorySample> samples, const ClockFit& clock) {
  std::vector<MemorySample> moved(samples.begin(), samples.end());
  for (MemorySample& sample : moved) sample.time_ns = clock.ToHost(sample.time_ns);
  return Pack(moved);
}

std::string PackWindow(const StepWindow& window, const ClockFit& clock) {
  StepWindow moved = window;
  moved.start_ns = clock.ToHost(moved.start_ns);
  moved.end_ns = clock.ToHost(moved.end_ns);
  return Pack(moved);
}

std::string PackScalars(const StepScalars& scalars, const ClockFit& clock) {
  StepScalars moved = scalars;
  moved.time_ns = clock.ToHost(moved.time_ns);
  return Pack(moved);
}

std::string PackRouting(const RoutedCounts& counts) { return Pack(counts); }

std::string PackCounters(std::span<const Counter> counters, const ClockFit& clock) {
  std::vector<Counter> moved(counters.begin(), counters.end());
  for (Counter& counter : moved) counter.time_ns = clock.ToHost(counter.time_ns);
  return Pack(moved);
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
  return Pack(rank, report, KernelsToJson(report.kernels));
}

bool Deliver(char type, const std::string& text, const RecordLimits& limits, RunSink& sink) {
  if (type == kSpans) {
    const auto spans = UnpackAll<Span>(text, limits);
    if (spans) sink.OnSpans(*spans);
    return spans.has_value();
  }
  if (type == kMemory) {
    const auto samples = UnpackAll<MemorySample>(text, limits);
    if (samples) sink.OnMemory(*samples);
    return samples.has_value();
  }
  if (type == kCounters) {
    const auto counters = UnpackAll<Counter>(text, limits);
    if (counters) sink.OnCounters(*counters);
    return counters.has_value();
  }
  // The others come one at a time.
  const auto deliver = [&](auto record, auto method) {
    const bool valid = Unpack(text, record) && IsValid(record, limits);
    if (valid) (sink.*method)(record);
    return valid;
  };
  if (type == kWindow) return deliver(StepWindow(), &RunSink::OnStepWindow);
  if (type == kScalars) return deliver(StepScalars(), &RunSink::OnScalars);
  if (type == kRouting) return deliver(RoutedCounts(), &RunSink::OnRouting);
  int rank = 0;
  CaptureReport report;
  std::string kernels;
  if (type != kCapture || !Unpack(text, rank, report, kernels) || rank != limits.rank ||
      !IsValid(report)) {
    return false;
  }
  auto table = KernelsFromJson(kernels, "kernels");
  if (!table.has_value()) return false;
  report.kernels = *std::move(table);
  sink.OnCapture(rank, report);
  return true;
}

std::string PackSummary(const RunSummary& summary) { return Pack(summary); }

std::optional<RunSummary> UnpackSummary(const std::string& text) {
  RunSummary summary;
  const GraphUse& graphs = summary.graphs;
  const RecordingCost& recording = summary.recording;
  if (!Unpack(text, summary) || !std::isfinite(summary.seconds) || summary.seconds < 0 ||
      !IsTime(summary.resident_growth_bytes) ||
      !AreCounts(summary.steps, recording.recording_ns, recording.thread_ns, recording.spans,
                 graphs.made, graphs.launches, graphs.ops, graphs.refused)) {
    return std::nullopt;
  }
  for (const auto& peaks : summary.peak_by_space) {
    if (!std::all_of(peaks.begin(), peaks.end(), [](std::int64_t n) { return AreCounts(n); })) {
      return std::nullopt;
    }
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
