// SampleTable, the durations that a calibration collects, a series for each point; and SpanSink and
// AddSpans, which sort a run's spans into them. Programs to run:
// runtime/calibrate/microbenchmark.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/run/run_sink.h"
#include "sim/cost/profile/device_profile.h"
#include "traces/timeline.h"

namespace foretrain {

// Durations in nanoseconds, in the order of measurement.
using Durations = std::vector<std::int64_t>;

// Statistics of a sample, in seconds.
struct Spread {
  double median = 0;
  double mean = 0;
  double p10 = 0;
  double p90 = 0;
  int samples = 0;
};

// Statistics of `durations`; quantiles by nearest rank. All 0 for an empty sample. O(n log n).
Spread SpreadOf(Durations durations);

// Durations of GEMMs that ran while nothing else of their rank moved bytes (`alone`), and of the
// same GEMMs fully overlapped with a transfer (`overlapped`).
struct Overlap {
  Durations alone, overlapped;

  void Add(const Overlap& more) {
    alone.insert(alone.end(), more.alone.begin(), more.alone.end());
    overlapped.insert(overlapped.end(), more.overlapped.begin(), more.overlapped.end());
  }
};

// Ratio of the medians, overlapped over alone; at least 1. nullopt if either has fewer than five
// samples.
std::optional<double> SlowdownOf(const Overlap& overlap);

// Orders points by key, not by result: two are equal if SameKey holds.
struct PointOrder {
  bool operator()(const ProfilePoint& a, const ProfilePoint& b) const;
};

// Everything that a calibration has timed so far.
class SampleTable {
 public:
  // Index of the series of `key`, created on first use.
  std::int32_t SeriesOf(const ProfilePoint& key);

  void Add(std::int32_t series, std::int64_t duration_ns) {
    series_[static_cast<std::size_t>(series)].durations.push_back(duration_ns);
  }
  // Adds the samples of a passage: all compute ops of one rank in one step.
  struct Sample {
    std::int32_t series = 0;
    std::int64_t duration_ns = 0;
  };
  void AddPassage(int concurrency, std::vector<Sample> samples);

  // Ratio of a passage's time to the sum of its ops' medians. It captures preemption and bimodal
  // ops, which medians hide but a step of many ops pays. The median over passages, weighted by
  // length; at least 1, and 1 if there are none. O(samples log samples).
  double Stretch(int concurrency) const;

  void AddOverhead(OverheadKind kind, int concurrency, std::int64_t duration_ns) {
    // Adjacent spans may overlap by one reading of the clock, hence the maximum with 0.
    overheads_[{kind, concurrency}].push_back(std::max<std::int64_t>(0, duration_ns));
  }
  void AddHostRead(std::int64_t duration_ns) { host_reads_.push_back(duration_ns); }

  Overlap collective_overlap, copy_overlap;  // GEMMs overlapped with either

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

// Collects the spans of one run.
class SpanSink : public RunSink {
 public:
  void OnSpans(std::span<const Span> spans) override {
    spans_.insert(spans_.end(), spans.begin(), spans.end());
  }
  // The spans sorted by (rank, queue, start). Call after the run.
  std::vector<Span> Take();

 private:
  std::vector<Span> spans_;
};

// For each rank, the series of each timed op, by op id.
using SeriesByOp = std::vector<std::unordered_map<OpId, std::int32_t>>;

// Sorts a run's spans into their series. A collective or transfer gives one sample: from the last
// member's arrival to the last member's end.
//
//   spans        as SpanSink::Take returns them
//   concurrency  number of busy ranks
//   series       of the program that was run
void AddSpans(const std::vector<Span>& spans, int concurrency, const SeriesByOp& series,
              SampleTable& table);

}  // namespace foretrain
