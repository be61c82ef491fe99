// All that the compare view shows of two runs, ready to be asked for any stretch of time. Leaves
// out pixels (ui/view_model/layout.h) and drawing (ui/view).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ui/run_view.h"
#include "ui/view_model/lanes.h"
#include "ui/view_model/memory_curve.h"
#include "ui/view_model/numbers.h"
#include "ui/view_model/viewport.h"

namespace foretrain::ui {

enum class Alignment : std::uint8_t {
  kStepStart,  // the two steps begin together
  kWallClock,  // the two runs do
};

struct CompareOptions {
  std::optional<std::int32_t> predicted_step{};  // default: the median one
  std::optional<std::int32_t> measured_step{};   // default: the median one
  Alignment alignment = Alignment::kStepStart;
  LaneRows rows = LaneRows::kMerged;
  std::vector<std::string> notices{};  // sentences of the caller, shown with the view's own
};

// What is computed once a run, whatever is chosen in the view. Null where the run is missing.
struct CompareFacts {
  std::array<std::shared_ptr<const Metrics>, 2> metrics{};  // shared by models of the same input
};

// One run as placed in the view. Displayed time = the run's own time - offset_ns.
struct SideModel {
  const RunView* run = nullptr;      // null: missing
  const Metrics* metrics = nullptr;  // not null where run is not
  std::vector<std::int32_t> steps;   // all steps, ascending
  std::int32_t step = -1;            // the chosen one; -1 where there is none
  std::int64_t step_start_ns = 0;    // own time: the earliest start of any rank
  std::int64_t step_end_ns = 0;      // the latest end
  std::int64_t offset_ns = 0;

  bool IsPresent() const { return run != nullptr; }
  double Displayed(std::int64_t own_ns) const { return static_cast<double>(own_ns - offset_ns); }
  double Own(double displayed_ns) const { return displayed_ns + static_cast<double>(offset_ns); }
};

struct CompareModel {
  CompareOptions options{};
  CompareFacts facts{};
  std::array<SideModel, 2> sides{};
  std::vector<Lane> lanes{};           // by rank
  std::vector<PairedOp> pairs{};       // of the chosen steps, sorted by (rank, op)
  std::vector<std::uint32_t> worst{};  // pairs by falling |error|, at most kMostWorst
  std::vector<Number> numbers{};
  std::vector<std::string> notices{};  // sentences on what is missing or doubtful
  Extent extent{};  // of the chosen steps, in displayed time: what fits the screen
  Extent all{};     // of everything

  const SideModel& Of(Side side) const { return sides[Index(side)]; }
  const Timeline& TimelineOf(Side side) const { return Of(side).run->timeline; }
  const Span& SpanOf(const SpanRef& ref) const { return TimelineOf(ref.side).spans[ref.span]; }
  bool HasBoth() const { return sides[0].IsPresent() && sides[1].IsPresent(); }
  // The rank of `side` whose spans stand in the lane of `rank`.
  int RankOn(Side side, int rank) const;
};

inline constexpr std::size_t kMostWorst = 200;

CompareFacts FactsOf(const CompareInput& input);

// The model of `input`, which must outlive it and stay as it is. An unknown step in `options` is
// taken as the median one. O(n log n) in the spans of both runs.
CompareModel BuildCompareModel(const CompareInput& input, const CompareFacts& facts,
                               const CompareOptions& options);
CompareModel BuildCompareModel(CompareInput&&, const CompareFacts&,
                               const CompareOptions&) = delete;  // borrows its input

// The first span of the other run that belongs to the same op, or nothing. O(log n).
std::optional<SpanRef> TwinOf(const CompareModel& model, int lane_rank, const SpanRef& ref);

// The index of the lane of `rank`, or nothing.
std::optional<std::size_t> LaneOfRank(const CompareModel& model, int rank);

// The lane in which a span shows: for a forecast that stands for several ranks, the first of them.
std::optional<std::size_t> LaneOf(const CompareModel& model, const SpanRef& ref);

}  // namespace foretrain::ui
