#include "runtime/calibrate/samples.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/units.h"

namespace foretrain {
namespace {

// A queue that is idle for less than this may still be spinning, not asleep (runtime/run/gate.h).
constexpr std::int64_t kAsleepNs = 5'000;

// Nearest rank, rounded half up.
double Quantile(const Durations& sorted, double part) {
  const auto last = static_cast<double>(sorted.size() - 1);
  return SecondsFromNs(sorted[static_cast<std::size_t>(part * last + 0.5)]);
}

bool Communicates(const Span& span) { return IsCommunication(span.op_class); }

// One call of a collective. Members' spans agree on the start, which is the last arrival.
struct Call {
  std::int64_t start_ns = 0;
  std::int32_t series = 0;
  bool operator<(const Call& other) const {
    return std::tie(start_ns, series) < std::tie(other.start_ns, other.series);
  }
};

// Between two spans of a queue: a gap if the second was ready before the first ended, a wake-up if
// the queue had gone to sleep in between. Shorter idle times are neither.
void AddOverheads(const Span& before, const Span& span, int concurrency, SampleTable& table) {
  if (before.rank != span.rank || before.queue != span.queue || Communicates(span)) return;
  if (span.ready_ns <= before.end_ns) {
    table.AddOverhead(OverheadKind::kGap, concurrency, span.start_ns - before.end_ns);
  } else if (span.ready_ns - before.end_ns >= kAsleepNs) {
    table.AddOverhead(OverheadKind::kWake, concurrency, span.start_ns - span.ready_ns);
  }
}

}  // namespace

Spread SpreadOf(Durations durations) {
  Spread spread;
  if (durations.empty()) return spread;
  std::sort(durations.begin(), durations.end());
  double sum = 0;
  for (const std::int64_t ns : durations) sum += SecondsFromNs(ns);
  spread.mean = sum / static_cast<double>(durations.size());
  spread.median = Quantile(durations, 0.5);
  spread.p10 = Quantile(durations, 0.1);
  spread.p90 = Quantile(durations, 0.9);
  spread.samples = static_cast<int>(durations.size());
  return spread;
}

bool PointOrder::operator()(const ProfilePoint& a, const ProfilePoint& b) const {
  const auto key = [](const ProfilePoint& p) {
    return std::tie(p.kind, p.concurrency, p.group, p.nodes, p.accumulate, p.trans_a, p.trans_b,
                    p.rms, p.format, p.formats, p.from, p.to, p.shape);
  };
  return key(a) < key(b);
}

std::int32_t SampleTable::SeriesOf(const ProfilePoint& key) {
  const auto [found, is_new] = numbers_.try_emplace(key, static_cast<std::int32_t>(series_.size()));
  if (is_new) series_.push_back({key, {}});
  return found->second;
}

// Sorted so that neighbours in the list are neighbours on one queue, which AddSpans relies on.
std::vector<Span> SpanSink::Take() {
  std::vector<Span> spans = std::exchange(spans_, {});
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return std::tie(a.rank, a.queue, a.start_ns) < std::tie(b.rank, b.queue, b.start_ns);
  });
  return spans;
}

void SampleTable::AddPassage(int concurrency, std::vector<Sample> samples) {
  for (const Sample& sample : samples) Add(sample.series, sample.duration_ns);
  if (!samples.empty()) passages_[concurrency].push_back(std::move(samples));
}

// Medians first, then each passage's ratio, then the weighted median of the ratios. Weighting by
// expected time keeps short excerpts, whose ratios are noisy, from deciding.
double SampleTable::Stretch(int concurrency) const {
  const auto found = passages_.find(concurrency);
  if (found == passages_.end()) return 1.0;
  std::map<std::int32_t, double> medians;
  for (const auto& passage : found->second) {
    for (const Sample& sample : passage) {
      const auto [median, is_new] = medians.try_emplace(sample.series, 0.0);
      if (!is_new) continue;
      median->second = SpreadOf(series_[static_cast<std::size_t>(sample.series)].durations).median;
    }
  }
  std::vector<std::pair<double, double>> ratios;  // and weights
  double weights = 0;
  for (const auto& passage : found->second) {
    double took = 0;
    double expected = 0;
    for (const Sample& sample : passage) {
      took += SecondsFromNs(sample.duration_ns);
      expected += medians.at(sample.series);
    }
    if (expected > 0) ratios.emplace_back(took / expected, expected);
    weights += expected;
  }
  std::sort(ratios.begin(), ratios.end());
  double before = 0;
  for (const auto& [ratio, weight] : ratios) {
    before += weight;
    if (2 * before >= weights) return std::max(1.0, ratio);
  }
  return 1.0;
}

// One pass. Host reads have no series; compute ops are grouped by (rank, step) for the stretch;
// members of a collective are joined by start and series, and the latest end counts.
void AddSpans(const std::vector<Span>& spans, int concurrency, const SeriesByOp& series,
              SampleTable& table) {
  std::map<Call, std::int64_t> calls;  // to the latest end
  std::map<std::pair<std::int16_t, std::int32_t>, std::vector<SampleTable::Sample>> passages;
  const Span* before = nullptr;
  for (const Span& span : spans) {
    if (span.queue == Queue::kHost) {
      table.AddHostRead(span.end_ns - span.start_ns);
      continue;
    }
    if (before != nullptr) AddOverheads(*before, span, concurrency, table);
    before = &span;
    const auto& of_rank = series[static_cast<std::size_t>(span.rank)];
    const auto found = of_rank.find(span.op);
    if (found == of_rank.end()) continue;
    if (Communicates(span)) {
      std::int64_t& end_ns = calls[{span.start_ns, found->second}];
      end_ns = std::max(end_ns, span.end_ns);
    } else if (IsCompute(span.op_class)) {
      passages[{span.rank, span.step}].push_back({found->second, span.end_ns - span.start_ns});
    } else {
      table.Add(found->second, span.end_ns - span.start_ns);
    }
  }
  for (auto& [at, passage] : passages) table.AddPassage(concurrency, std::move(passage));
  for (const auto& [call, end_ns] : calls) table.Add(call.series, end_ns - call.start_ns);
}

}  // namespace foretrain
