#include "ui/view_model/runs/compare_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "base/units.h"
#include "ui/view_model/panels/counter_rows.h"
#include "ui/view_model/panels/wait_rows.h"
#include "ui/view_model/runs/long_runs.h"

namespace foretrain::ui {
namespace {

// "stage 1" if some run says that the rank is in a pipeline, the measured one first.
std::string DetailOf(const CompareModel& model, int rank) {
  for (const Side side : {Side::kMeasured, Side::kPredicted}) {
    if (!model.Of(side).IsPresent()) continue;
    for (const Pipeline& pipeline : model.Of(side).run->metrics.pipelines) {
      const auto at = std::find(pipeline.begin(), pipeline.end(), rank);
      if (at != pipeline.end() && pipeline.size() > 1) {
        return "stage " + std::to_string(at - pipeline.begin());
      }
    }
  }
  return {};
}

std::span<const PairedOp> PairsOfRank(const std::vector<PairedOp>& pairs, int rank) {
  const auto [begin, end] = std::equal_range(
      pairs.begin(), pairs.end(), PairedOp{.rank = static_cast<std::int16_t>(rank)},
      [](const PairedOp& a, const PairedOp& b) { return a.rank < b.rank; });
  return {begin, end};
}

// Errors belong to the measured spans: only these are drawn with an error line.
void SetErrors(const CompareModel& model, Lane& lane) {
  const std::int32_t step = model.Of(Side::kMeasured).step;
  for (Row& row : lane.rows[Index(Side::kMeasured)]) {
    for (Track& track : row.tracks) {
      track.SetErrors(ErrorsOf(track, model.pairs, lane.rank, step));
    }
  }
}

// Both sides use the union of their queues, so that rows line up.
Lane LaneOfRankIn(const CompareModel& model, int rank) {
  Lane lane{.rank = rank, .name = "rank " + std::to_string(rank), .detail = DetailOf(model, rank)};
  std::uint32_t queues = 0;
  for (const Side side : kSides) {
    if (!model.Of(side).IsPresent()) continue;
    queues |= QueuesOf(*model.Of(side).run, model.RankOn(side, rank));
  }
  for (const Side side : kSides) {
    if (!model.Of(side).IsPresent()) continue;
    lane.rows[Index(side)] = RowsOf(*model.Of(side).run, model.RankOn(side, rank),
                                    model.options.rows, queues, lane.left_out);
  }
  const SideModel& shown = model.Of(model.Shown());
  if (shown.IsPresent()) lane.counters = CountersOf(*shown.run, model.RankOn(model.Shown(), rank));
  if (!model.HasBoth()) return lane;
  SetErrors(model, lane);
  lane.drift = DriftOfRank(PairsOfRank(model.pairs, rank), model.sides[0].step_start_ns,
                           model.sides[1].step_start_ns);
  return lane;
}

// Only the kMaxWorst worst pairs are needed, hence the partial sort. Ties are broken by index to
// keep the order stable.
void FillPairs(CompareModel& model) {
  if (!model.HasBoth()) return;
  model.pairs = PairsOf(model);
  for (std::uint32_t i = 0; i < model.pairs.size(); ++i) {
    const PairedOp& pair = model.pairs[i];
    if (pair.IsPair() && pair.measured->op_class != OpClass::kHost) model.worst.push_back(i);
  }
  const auto key = [&model](std::uint32_t i) {
    return std::pair(-std::abs(model.pairs[i].ErrorNs()), i);
  };
  const auto by_error = [&key](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); };
  const std::size_t kept = std::min(kMaxWorst, model.worst.size());
  std::partial_sort(model.worst.begin(), model.worst.begin() + static_cast<std::ptrdiff_t>(kept),
                    model.worst.end(), by_error);
  model.worst.resize(kept);
}

// The drift is that of the rank that ends farthest from its forecast, in either direction.
PairingCounts CountsOf(const CompareModel& model) {
  PairingCounts counts;
  for (const PairedOp& pair : model.pairs) {
    counts.pairs += pair.IsPair();
    counts.predicted_alone += !pair.measured.has_value();
    counts.measured_alone += !pair.predicted.has_value();
  }
  for (const Lane& lane : model.lanes) {
    if (lane.drift.empty()) continue;
    const std::int64_t end = lane.drift.back().drift_ns;
    if (std::abs(end) > std::abs(counts.drift_ns)) counts.drift_ns = end;
  }
  return counts;
}

// The extent covers step windows and spans, and for a long run its blocks, since most of its spans
// are not loaded.
Extent ExtentOf(const CompareModel& model, bool whole) {
  Extent extent{std::numeric_limits<double>::max(), std::numeric_limits<double>::lowest()};
  const auto add = [&extent](double start, double end) {
    extent.start_ns = std::min(extent.start_ns, start);
    extent.end_ns = std::max(extent.end_ns, end);
  };
  for (const SideModel& side : model.sides) {
    if (!side.IsPresent()) continue;
    // The chosen step fits the screen; everything else only counts for the whole extent.
    if (!whole && side.step >= 0) {
      add(side.Displayed(side.step_start_ns), side.Displayed(side.step_end_ns));
      continue;
    }
    for (const StepWindow& step : side.run->timeline.steps) {
      add(side.Displayed(step.start_ns), side.Displayed(step.end_ns));
    }
    for (const Span& span : side.run->timeline.spans) {
      add(side.Displayed(span.start_ns), side.Displayed(span.end_ns));
    }
    if (side.run->sums == nullptr) continue;
    for (const TrackSums& track : side.run->sums->tracks) {
      if (track.blocks.empty()) continue;
      add(side.Displayed(track.blocks.front().start_ns),
          side.Displayed(track.blocks.back().end_ns));
    }
  }
  return extent.end_ns >= extent.start_ns ? extent : Extent{};
}

// Equal hashes mean the same program. Otherwise pairs are matched by name or kind, which the notice
// explains.
std::string HashNotice(const CompareModel& model) {
  if (const auto& structure = model.sides[1].run->structure; structure.has_value()) {
    return fmt::format(
        "The trace's kernels are paired with the forecast's ops by structure: {} of the traced "
        "time "
        "has an op, {} of it in steady pairs{}",
        FormatPercent(structure->PairedShare()), FormatPercent(structure->SteadyShare()),
        structure->IsTrusted() ? "." : ". Is it a forecast of what was traced?");
  }
  const std::string& predicted = model.sides[0].run->program_hash;
  const std::string& measured = model.sides[1].run->program_hash;
  if (predicted == measured) return {};
  if (predicted.empty() || measured.empty()) {
    return "One of the runs is a trace without a program: ops are paired where both have the same "
           "names; the time view compares classes.";
  }
  return "The two runs executed different programs: ops are paired by what they are, not one to "
         "one.";
}

// Marks the hues of the first blocks of each track.
void AddHues(const SpanSums& sums, std::array<bool, kHueCount>& used) {
  constexpr std::size_t kBlocks = 100;
  for (const TrackSums& track : sums.tracks) {
    for (std::size_t i = 0; i < std::min(kBlocks, track.blocks.size()); ++i) {
      for (std::size_t hue = 0; hue < kHueCount; ++hue) {
        used[hue] = used[hue] || track.blocks[i].busy_ns[hue] > 0.0F;
      }
    }
  }
}

std::vector<Hue> HuesInUse(const CompareModel& model) {
  std::array<bool, kHueCount> used{};
  for (const Side side : kSides) {
    if (!model.Of(side).IsPresent()) continue;
    if (const SpanSums* const sums = model.Of(side).run->sums.get()) AddHues(*sums, used);
    // A sample is enough: every class of a run occurs more often than this.
    const std::vector<Span>& spans = model.TimelineOf(side).spans;
    const std::size_t stride = std::max<std::size_t>(1, spans.size() / 20000);
    for (std::size_t i = 0; i < spans.size(); i += stride) {
      used[static_cast<std::size_t>(HueOf(spans[i]))] = true;
    }
  }
  if (model.options.rows == LaneRows::kMerged) used[static_cast<std::size_t>(Hue::kHost)] = false;
  std::vector<Hue> hues;
  for (std::size_t hue = 0; hue < kHueCount; ++hue) {
    if (used[hue]) hues.push_back(static_cast<Hue>(hue));
  }
  return hues;
}

// Notices are ordered by importance: missing runs first, then doubts about pairing, then limits of
// display.
void FillNotices(CompareModel& model) {
  const auto add = [&model](std::string text) {
    if (!text.empty()) model.notices.push_back(std::move(text));
  };
  const bool predicted = model.sides[0].IsPresent();
  const bool measured = model.sides[1].IsPresent();
  if (!predicted && !measured) add("There is no run to show.");
  if (predicted && !measured) add("No measured run of this plan yet: the forecast alone is shown.");
  if (!predicted && measured) add("No forecast for this run: the measurement alone is shown.");
  if (predicted && measured) add(HashNotice(model));
  for (const Side side : kSides) {
    add(DescribeLoading(model.Of(side),
                        side == Side::kPredicted ? model.Reference() : "measured run"));
    if (!model.Of(side).IsPresent() || !model.TimelineOf(side).spans.empty()) continue;
    if (model.Of(side).run->sums != nullptr) continue;
    add(fmt::format("The {} holds no spans.",
                    side == Side::kPredicted ? model.Reference() : "measured run"));
  }
  std::int64_t left_out = 0;
  for (const Lane& lane : model.lanes) left_out += lane.left_out;
  if (left_out > 0) {
    add(std::to_string(left_out) +
        " spans overlap too many others on their queue and are not drawn.");
  }
}

}  // namespace

// The pairs come first: alignment needs them, and a warp moves the forecast's spans, so that they
// must be built again.
CompareModel BuildCompareModel(const CompareInput& input, const CompareFacts& facts,
                               const CompareOptions& options) {
  CompareModel model;
  static_cast<SidePair&>(model) =
      SidesOf(input, facts, {{options.predicted_step, options.measured_step}});
  model.options = options;
  model.recorded = model;
  FillPairs(model);
  for (const Side side : kSides) model.bubble_causes[Index(side)] = BubbleCausesOf(model.Of(side));
  AlignSides(options.alignment, options.anchor, model.pairs, model);
  if (options.alignment == Alignment::kWarp && model.HasBoth()) {
    model.warped = Warped(model, model.pairs);
    model.sides[Index(Side::kPredicted)].run = model.warped.get();
    model.pairs = PairsOf(model);
  }
  for (const int rank : RanksOf(model)) model.lanes.push_back(LaneOfRankIn(model, rank));
  model.extent = ExtentOf(model, /*whole=*/options.alignment == Alignment::kWallClock);
  model.all = ExtentOf(model, /*whole=*/true);
  model.numbers = NumbersOf(model.recorded, CountsOf(model));
  model.hues = HuesInUse(model);
  FillNotices(model);
  return model;
}

std::optional<std::size_t> LaneOfRank(const CompareModel& model, int rank) {
  const auto at = std::partition_point(model.lanes.begin(), model.lanes.end(),
                                       [rank](const Lane& lane) { return lane.rank < rank; });
  if (at == model.lanes.end() || at->rank != rank) return std::nullopt;
  return static_cast<std::size_t>(at - model.lanes.begin());
}

// Linear in the lanes, since several lanes may show the same simulated rank.
std::optional<std::size_t> LaneOf(const CompareModel& model, const SpanRef& ref) {
  const int rank = model.SpanOf(ref).rank;
  for (std::size_t i = 0; i < model.lanes.size(); ++i) {
    if (model.RankOn(ref.side, model.lanes[i].rank) == rank) return i;
  }
  return std::nullopt;
}

// The pair gives rank, queue and start of the counterpart, and the spans are sorted by these.
std::optional<SpanRef> CounterpartOf(const CompareModel& model, int lane_rank, const SpanRef& ref) {
  const Span& span = model.SpanOf(ref);
  if (!model.HasBoth() || span.step != model.Of(ref.side).step) return std::nullopt;
  const PairedOp* pair = FindPair(model.pairs, lane_rank, span.op);
  if (pair == nullptr || !pair->IsPair()) return std::nullopt;
  const Side other = Other(ref.side);
  const OpTotal& total = other == Side::kPredicted ? *pair->predicted : *pair->measured;
  const std::vector<Span>& spans = model.TimelineOf(other).spans;
  const auto key = [](const auto& place) {
    return std::tuple(place.rank, place.queue, place.start_ns);
  };
  auto at = std::lower_bound(spans.begin(), spans.end(), total,
                             [&key](const Span& a, const OpTotal& b) { return key(a) < key(b); });
  for (; at != spans.end() && key(*at) == key(total); ++at) {
    const bool same = at->op == total.op || InstructionOf(at->op) == total.op;
    if (same && at->step == total.step) {
      return SpanRef{other, static_cast<std::uint32_t>(at - spans.begin())};
    }
  }
  return std::nullopt;
}

}  // namespace foretrain::ui
