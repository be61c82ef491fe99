#include "traces/import/ranks/collectives.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

namespace foretrain::trace_import {
namespace {

constexpr std::int64_t kLeastOffsetNs = 10'000;
constexpr std::size_t kLeastForDrift = 20;   // samples
constexpr std::size_t kMaxSlopes = 100'000;  // pairs of samples whose slopes are taken

// A quartz stays within 100 ppm; more is the scatter of the ends.
constexpr double kMaxDrift = 1e-3;

// Ends of one communication on two ranks.
struct Sample {
  std::int64_t time_ns = 0;        // on the reference
  std::int64_t difference_ns = 0;  // the other rank's end minus the reference's
};

std::int64_t Median(std::vector<std::int64_t> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The median slope of samples half the time apart (Theil 1950, Sen 1968); 0 if there are few.
double SlopeOf(const std::vector<Sample>& samples) {
  if (samples.size() < kLeastForDrift) return 0;
  const std::size_t half = samples.size() / 2;
  const std::size_t each = std::max<std::size_t>(1, half / kMaxSlopes);
  std::vector<double> slopes;
  for (std::size_t i = 0; i + half < samples.size(); i += each) {
    const Sample& a = samples[i];
    const Sample& b = samples[i + half];
    if (b.time_ns == a.time_ns) continue;
    slopes.push_back(static_cast<double>(b.difference_ns - a.difference_ns) /
                     static_cast<double>(b.time_ns - a.time_ns));
  }
  if (slopes.empty()) return 0;
  const auto middle = slopes.begin() + std::ssize(slopes) / 2;
  std::nth_element(slopes.begin(), middle, slopes.end());
  return *middle;
}

// The offset and its error with a given drift. `samples` by time.
ClockFit FitWith(double drift, const std::vector<Sample>& samples) {
  ClockFit fit;
  fit.samples = samples.size();
  fit.origin_ns = samples.front().time_ns;
  fit.drift = drift;
  const auto rest = [&fit](const Sample& sample) {
    return sample.difference_ns -
           std::llround(fit.drift * static_cast<double>(sample.time_ns - fit.origin_ns));
  };
  std::vector<std::int64_t> values;
  for (const Sample& sample : samples) values.push_back(rest(sample));
  fit.offset_ns = Median(values);
  for (std::int64_t& value : values) value = std::abs(value - fit.offset_ns);
  fit.error_ns = Median(std::move(values));
  return fit;
}

// Fits `difference = offset + drift * time`. Offset and drift are kept if they move a clock by more
// than the least offset, and by more than chance would where the ends of calls scatter.
ClockFit FitOf(std::vector<Sample> samples) {
  std::sort(samples.begin(), samples.end(),
            [](const Sample& a, const Sample& b) { return a.time_ns < b.time_ns; });
  const auto least_ns = [](const ClockFit& fit) {
    return std::max(kLeastOffsetNs, 3 * fit.error_ns);
  };
  const double slope = SlopeOf(samples);
  ClockFit fit = FitWith(std::abs(slope) <= kMaxDrift ? slope : 0, samples);
  const double length_ns = static_cast<double>(samples.back().time_ns - fit.origin_ns);
  if (std::abs(fit.drift) * length_ns < static_cast<double>(least_ns(fit))) {
    fit = FitWith(0, samples);
  }
  if (std::abs(fit.offset_ns) < least_ns(fit) && fit.drift == 0) fit.offset_ns = 0;
  return fit;
}

std::int64_t EndOf(const std::vector<TracedRank>& ranks, const Match::Call& call) {
  return (*ranks[static_cast<std::size_t>(call.traced)].spans)[call.span].end_ns;
}

using Edges = std::map<std::pair<int, int>, std::vector<Sample>>;  // traced ranks, the lower first

// Each match compares its first member with the others.
Edges EdgesOf(const std::vector<TracedRank>& ranks, const std::vector<Match>& matches,
              bool point_to_point) {
  Edges edges;
  for (const Match& match : matches) {
    if (match.point_to_point != point_to_point) continue;
    const std::int64_t reference_ns = EndOf(ranks, match.calls.front());
    for (std::size_t i = 1; i < match.calls.size(); ++i) {
      edges[{match.calls.front().traced, match.calls[i].traced}].push_back(
          {reference_ns, EndOf(ranks, match.calls[i]) - reference_ns});
    }
  }
  return edges;
}

// The fit of a rank whose neighbour's clock is fitted already: offsets and drifts add up.
ClockFit Chained(const ClockFit& neighbour, const ClockFit& step) {
  ClockFit fit = step;
  fit.origin_ns = neighbour.Aligned(step.origin_ns);
  fit.offset_ns += step.origin_ns - fit.origin_ns;
  fit.drift += neighbour.drift;
  fit.error_ns += neighbour.error_ns;
  return fit;
}

// Fits every rank that edges join to a fitted one, by as few steps as possible.
void Spread(const Edges& edges, std::vector<std::optional<ClockFit>>& fits) {
  std::map<int, std::vector<int>> neighbours;
  for (const auto& [ends, samples] : edges) {
    neighbours[ends.first].push_back(ends.second);
    neighbours[ends.second].push_back(ends.first);
  }
  std::queue<int> open;
  for (int i = 0; i < static_cast<int>(fits.size()); ++i) {
    if (fits[static_cast<std::size_t>(i)]) open.push(i);
  }
  while (!open.empty()) {
    const int from = open.front();
    open.pop();
    for (const int to : neighbours[from]) {
      std::optional<ClockFit>& fit = fits[static_cast<std::size_t>(to)];
      if (fit) continue;
      std::vector<Sample> samples = edges.at({std::min(from, to), std::max(from, to)});
      if (to < from) {
        for (Sample& sample : samples) {
          sample.time_ns += sample.difference_ns;
          sample.difference_ns = -sample.difference_ns;
        }
      }
      fit = Chained(*fits[static_cast<std::size_t>(from)], FitOf(std::move(samples)));
      open.push(to);
    }
  }
}

}  // namespace

std::int64_t ClockFit::Aligned(std::int64_t time_ns) const {
  return time_ns - offset_ns -
         std::llround(drift * static_cast<double>(time_ns - offset_ns - origin_ns));
}

std::vector<Match> MatchCalls(const std::vector<TracedRank>& ranks) {
  struct Members {
    std::map<int, std::vector<std::size_t>> spans;  // by traced rank
    int expected = 0;
  };
  std::map<std::pair<std::string, std::int32_t>, Members> all;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    for (const CommunicationCall& call : ranks[i].calls) {
      if (call.group.empty() || call.step < 0) continue;
      Members& members = all[{call.group, call.step}];
      members.spans[static_cast<int>(i)].push_back(call.span);
      members.expected = std::max(members.expected, call.members);
    }
  }
  std::vector<Match> matches;
  for (const auto& [key, members] : all) {
    const std::size_t count = members.spans.begin()->second.size();
    const bool complete = std::ssize(members.spans) == members.expected && members.expected > 1;
    const bool alike = std::all_of(members.spans.begin(), members.spans.end(),
                                   [&](const auto& one) { return one.second.size() == count; });
    if (!complete || !alike) continue;
    for (std::size_t n = 0; n < count; ++n) {
      Match match;
      for (const auto& [traced, spans] : members.spans) match.calls.push_back({traced, spans[n]});
      const Match::Call& first = match.calls.front();
      match.point_to_point =
          (*ranks[static_cast<std::size_t>(first.traced)].spans)[first.span].op_class ==
          OpClass::kPpComm;
      matches.push_back(std::move(match));
    }
  }
  return matches;
}

std::vector<ClockFit> FitClocks(const std::vector<TracedRank>& ranks,
                                const std::vector<Match>& matches) {
  const Edges collectives = EdgesOf(ranks, matches, false);
  const Edges transfers = EdgesOf(ranks, matches, true);
  std::vector<std::optional<ClockFit>> fits(ranks.size());
  for (std::optional<ClockFit>& fit : fits) {
    if (fit) continue;
    // The first rank of those that belong together keeps its clock.
    fit = ClockFit{};
    Spread(collectives, fits);
    Spread(transfers, fits);
    Spread(collectives, fits);
  }
  std::vector<ClockFit> all;
  for (const std::optional<ClockFit>& fit : fits) all.push_back(*fit);
  return all;
}

void SplitWaits(const std::vector<TracedRank>& ranks, const std::vector<Match>& matches) {
  for (const Match& match : matches) {
    std::vector<Span*> spans;
    for (const Match::Call& call : match.calls) {
      spans.push_back(&(*ranks[static_cast<std::size_t>(call.traced)].spans)[call.span]);
    }
    std::int64_t last_ns = spans.front()->start_ns;
    for (const Span* span : spans) last_ns = std::max(last_ns, span->start_ns);
    for (Span* span : spans) {
      span->ready_ns = span->start_ns;
      span->start_ns = std::clamp(last_ns, span->start_ns, span->end_ns);
    }
  }
}

}  // namespace foretrain::trace_import
