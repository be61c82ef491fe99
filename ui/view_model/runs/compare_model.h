// All data that the compare view shows of two runs, prepared for any range of time. Leaves out
// layout (ui/view_model/timeline/layout.h) and drawing (ui/view).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "traces/metrics/bubble_causes.h"
#include "ui/run_view.h"
#include "ui/view_model/runs/alignment.h"
#include "ui/view_model/runs/sides.h"
#include "ui/view_model/timeline/lanes.h"
#include "ui/view_model/timeline/numbers.h"
#include "ui/view_model/timeline/viewport.h"

namespace foretrain::ui {

struct CompareOptions {
  std::optional<std::int32_t> predicted_step{};  // default: the median step
  std::optional<std::int32_t> measured_step{};   // default: the median step
  Alignment alignment = Alignment::kStepStart;
  std::optional<Anchor> anchor{};  // for kSelectedOp and kMicroBatch
  LaneRows rows = LaneRows::kMerged;

  bool operator==(const CompareOptions&) const = default;
};

struct CompareModel : SidePair {
  CompareOptions options{};
  // Both runs with their own times relative to the start of the step, whatever the alignment; the
  // other views use it.
  SidePair recorded{};
  std::unique_ptr<const RunView> warped{};  // the forecast of kWarp, which replaces the input's
  std::vector<Lane> lanes{};                // by rank
  std::vector<PairedOp> pairs{};            // pairs of the chosen steps, sorted by (rank, op)
  std::vector<std::uint32_t> worst{};       // pairs by descending |error|, at most kMaxWorst
  std::vector<Hue> hues{};  // shown in lanes, in the order in which they are stacked
  std::vector<Number> numbers{};
  std::array<std::optional<BubbleCauses>, 2> bubble_causes{};  // by side, for the chosen step
  std::vector<std::string> notices{};  // sentences on missing or doubtful data
  Extent extent{};  // of the chosen steps in displayed time: the range that fits the screen
  Extent all{};     // of all data

  const Span& SpanOf(const SpanRef& ref) const { return TimelineOf(ref.side).spans[ref.span]; }
};

inline constexpr std::size_t kMaxWorst = 200;

// Builds the model of `input`, which must outlive it and stay unchanged. An unknown step in
// `options` selects the median one. O(n log n) in the spans of both runs.
CompareModel BuildCompareModel(const CompareInput& input, const CompareFacts& facts,
                               const CompareOptions& options);
CompareModel BuildCompareModel(CompareInput&&, const CompareFacts&,
                               const CompareOptions&) = delete;  // borrows its input

// The first span of the same op in the other run; nullopt if there is none. O(log n).
std::optional<SpanRef> CounterpartOf(const CompareModel& model, int lane_rank, const SpanRef& ref);

// Index of the lane of `rank`; nullopt if there is none.
std::optional<std::size_t> LaneOfRank(const CompareModel& model, int rank);

// Lane in which a span is drawn: for a forecast span that represents several ranks, the first of
// them.
std::optional<std::size_t> LaneOf(const CompareModel& model, const SpanRef& ref);

}  // namespace foretrain::ui
