// Durations of ops as a calibration collects them: a series for each thing that is timed, and the
// sink that sorts a run's spans into them. Leaves out which programs are run
// (runtime/calibrate/sheet.h) and what becomes of the figures (runtime/calibrate/calibrate.h).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/run_sink.h"
#include "sim/cost/device_profile.h"
#include "traces/timeline.h"

namespace foretrain {

// Durations in nanoseconds, as they came.
using Durations = std::vector<std::int64_t>;

// What a sample's spread looks like; seconds.
struct Spread {
  double median = 0;
  double mean = 0;
  double p10 = 0;
  double p90 = 0;
  int samples = 0;
};

// Order statistics by the nearest rank; all 0 of none. O(n log n).
Spread SpreadOf(Durations durations);

// Durations of ops that ran while nothing else of their rank moved bytes, and of the same ones that
// ran wholly beside what did.
struct Overlap {
  Durations alone, beside;

  void Add(const Overlap& more) {
    alone.insert(alone.end(), more.alone.begin(), more.alone.end());
    beside.insert(beside.end(), more.beside.begin(), more.beside.end());
  }
};

// How many times as long an op takes beside the others: by medians, at least 1; nothing of fewer
// than five samples of either.
std::optional<double> SlowdownOf(const Overlap& overlap);

// Orders points by what they measure, whatever came out: two are equal where SameKey holds.
struct PointOrder {
  bool operator()(const ProfilePoint& a, const ProfilePoint& b) const;
};

// All that a calibration has timed so far.
class SampleTable {
 public:
  // Number of the series of `key`, made at the first call.
  std::int32_t SeriesOf(const ProfilePoint& key);

  void Add(std::int32_t series, std::int64_t duration_ns) {
    series_[static_cast<std::size_t>(series)].durations.push_back(duration_ns);
  }
  // The compute ops of one rank in one step: a passage. Their samples are added too.
  struct Sample {
    std::int32_t series = 0;
    std::int64_t duration_ns = 0;
  };
  void AddPassage(int concurrency, std::vector<Sample> samples);

  // How much longer a passage takes than its ops' medians add up to: what a processor that is taken
  // away now and then, or an op of two minds, costs a step of many ops. The median over passages,
  // each weighted by its length; at least 1, and 1 where there are none. O(samples log).
  double Stretch(int concurrency) const;

  void AddOverhead(OverheadKind kind, int concurrency, std::int64_t duration_ns) {
    // Spans of one queue may touch within a reading of the clock.
    overheads_[{kind, concurrency}].push_back(std::max<std::int64_t>(0, duration_ns));
  }
  void AddHostRead(std::int64_t duration_ns) { host_reads_.push_back(duration_ns); }

  Overlap collective_overlap, copy_overlap;  // of GEMMs

  struct Series {
    ProfilePoint key;
    Durations durations;
  };
  const std::vector<Series>& series() const { return series_; }
  const std::map<std::pair<OverheadKind, int>, Durations>& overheads() const { return overheads_; }
  const Durations& host_reads() const { return host_reads_; }

 private:
  std::vector<Series> series_;
  std::map<ProfilePoint, std::int32_t, PointOrder> numbers_;
  std::map<std::pair<OverheadKind, int>, Durations> overheads_;
  std::map<int, std::vector<std::vector<Sample>>> passages_;  // by concurrency
  Durations host_reads_;
};

// Keeps the spans of one run.
class SpanSink : public RunSink {
 public:
  void OnSpans(std::span<const Span> spans) override {
    spans_.insert(spans_.end(), spans.begin(), spans.end());
  }
  // In order of (rank, queue, start). Call after the run.
  std::vector<Span> Take();

 private:
  std::vector<Span> spans_;
};

// By rank: the series of each op that is timed, by its id.
using SeriesByOp = std::vector<std::unordered_map<OpId, std::int32_t>>;

// Sorts the spans of a run of `ranks` ranks into their series. A collective's or transfer's sample
// is the longest of its members', from the last arrival: whoever comes next waits for it.
//
//   spans        as SpanSink::Take returns them
//   concurrency  ranks that were busy
//   series       of the program that was run
void AddSpans(const std::vector<Span>& spans, int concurrency, const SeriesByOp& series,
              SampleTable& table);

}  // namespace foretrain
