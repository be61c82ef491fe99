// All that the compare view shows of two runs, ready to be asked for any stretch of time. Leaves
// out pixels (ui/view_model/layout.h) and drawing (ui/view).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "traces/metrics/bubble_causes.h"
#include "ui/run_view.h"
#include "ui/view_model/alignment.h"
#include "ui/view_model/lanes.h"
#include "ui/view_model/memory_curve.h"
#include "ui/view_model/numbers.h"
#include "ui/view_model/sides.h"
#include "ui/view_model/viewport.h"

namespace foretrain::ui {

struct CompareOptions {
  std::optional<std::int32_t> predicted_step{};  // default: the median one
  std::optional<std::int32_t> measured_step{};   // default: the median one
  Alignment alignment = Alignment::kStepStart;
  std::optional<Anchor> anchor{};  // of kSelectedOp and kMicroBatch
  LaneRows rows = LaneRows::kMerged;

  bool operator==(const CompareOptions&) const = default;
};

struct CompareModel : SidePair {
  CompareOptions options{};
  // Both runs with their own times from the start of the step on, whatever the alignment: what the
  // other views show.
  SidePair recorded{};
  std::unique_ptr<const RunView> warped{};  // the forecast of kWarp, in place of the input's
  std::vector<Lane> lanes{};                // by rank
  std::vector<PairedOp> pairs{};            // of the chosen steps, sorted by (rank, op)
  std::vector<std::uint32_t> worst{};       // pairs by falling |error|, at most kMostWorst
  std::vector<Hue> hues{};  // that lanes show, in the order in which they are stacked
  std::vector<Number> numbers{};
  std::array<std::optional<BubbleCauses>, 2> bubble_causes{};  // [side], of the chosen step
  std::vector<std::string> notices{};  // sentences on what is missing or doubtful
  Extent extent{};  // of the chosen steps, in displayed time: what fits the screen
  Extent all{};     // of everything

  const Span& SpanOf(const SpanRef& ref) const { return TimelineOf(ref.side).spans[ref.span]; }
};

inline constexpr std::size_t kMostWorst = 200;

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
