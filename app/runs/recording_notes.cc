#include "app/runs/recording_notes.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "base/units.h"
#include "traces/metrics/gpu/faults.h"
#include "traces/metrics/gpu/throttling.h"
#include "traces/metrics/statistics.h"

namespace foretrain {
namespace {

constexpr double kMinShare = 0.01;
constexpr double kMinCoreWait = 0.05;
constexpr double kFullCoverage = 0.9995;  // shows as 100.0 %

// "rank 3's GPU was power-capped 41.0 % of the window, at 1.41 GHz instead of 1.98 GHz"
std::string NoteOf(const Throttling& held) {
  std::string note = "rank " + std::to_string(held.rank) + "'s GPU was " +
                     std::string(Describe(held.reason)) + " " + FormatPercent(held.share) +
                     " of the window";
  if (held.clock_hz) note += ", at " + FormatSi(*held.clock_hz, "Hz");
  if (held.clock_hz && held.other_clock_hz) {
    note += " instead of " + FormatSi(*held.other_clock_hz, "Hz");
  }
  return note;
}

// Median over the recorded steps of the share of a step for which a rank's threads waited for a
// core; 0: unknown.
double CoreWaitShare(const StoredRun& run) {
  std::map<std::int32_t, std::int64_t> lengths_ns;
  for (const StepWindow& window : run.timeline.steps) {
    std::int64_t& longest_ns = lengths_ns[window.step];
    longest_ns = std::max(longest_ns, window.end_ns - window.start_ns);
  }
  std::vector<double> shares;
  for (const Counter& counter : run.counters) {
    const auto step = lengths_ns.find(counter.step);
    if (counter.name != "core_wait_s" || step == lengths_ns.end() || step->second <= 0) continue;
    shares.push_back(counter.value / SecondsFromNs(step->second));
  }
  return shares.empty() ? 0 : StatisticsOf(shares).median;
}

}  // namespace

// Order: the GPUs' errors first, then lost spans, then unmatched device time, then throttling, then
// notes of the run. Throttling counts within the recorded steps only; below kMinShare of them it is
// left out.
std::vector<std::string> RecordingNotes(const StoredRun& run, double coverage) {
  std::vector<std::string> notes;
  for (const GpuFault& fault : GpuFaultsOf(run.counters)) notes.push_back(Describe(fault));
  const RecordingTotals& totals = run.info.totals;
  if (totals.dropped > 0) notes.push_back(std::to_string(totals.dropped) + " spans were dropped");
  if (totals.invalid > 0) {
    notes.push_back(std::to_string(totals.invalid) + " spans have no time and are left out");
  }
  if (coverage < kFullCoverage) {
    notes.push_back(FormatPercent(1 - coverage) + " of the device's time is of no known op");
  }
  if (const double share = CoreWaitShare(run); share >= kMinCoreWait) {
    notes.push_back("a rank's threads waited for a core for " + FormatPercent(share) +
                    " of a step: other programs ran, or there are more threads than cores, and ops "
                    "took longer for it");
  }
  std::int64_t start_ns = INT64_MAX, end_ns = INT64_MIN;
  for (const StepWindow& window : run.timeline.steps) {
    start_ns = std::min(start_ns, window.start_ns);
    end_ns = std::max(end_ns, window.end_ns);
  }
  for (const Throttling& held : ThrottledRanks(run.counters, start_ns, end_ns)) {
    if (held.share >= kMinShare) notes.push_back(NoteOf(held));
  }
  for (const Note& note : run.notes) notes.push_back(note.text);
  return notes;
}

}  // namespace foretrain
