// Handles runs too long to load completely: selects the ranges that a view needs, and draws the
// rest from sums of spans. Loading is done by StoreAccess.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ui/run_view.h"
#include "ui/view_model/runs/sides.h"
#include "ui/view_model/timeline/lanes.h"
#include "ui/view_model/timeline/viewport.h"

namespace foretrain::ui {

// Maximum number of spans of a run that are in memory.
inline constexpr std::int64_t kMaxLoadedSpans = 300'000;

// Ranges to load for each side; for a side that needs nothing, its loaded ranges.
using WantedParts = std::array<std::vector<Stretch>, 2>;

// Ranges that this view needs: the chosen step of each long run, and the visible range with half
// its length on both sides. A range with more than kMaxLoadedSpans spans is left out. `nullopt` if
// everything is loaded or nothing can be. `viewport`: null if no timeline is shown. O(blocks).
std::optional<WantedParts> PartsToLoad(const SidePair& sides, const Viewport* viewport);

// Approximate number of spans in the chosen step of a long run, whose sums tell it. O(blocks).
std::int64_t SpansOfStep(const SideModel& side);

// One sentence on how a long run is displayed; empty for other runs.
std::string DescribeLoading(const SideModel& side, std::string_view name);

// Metrics of a run: computed from its timeline or, for a long run, the stored ones, with single
// ranks for the loaded steps.
Metrics MetricsOfRun(const RunView& run);

// Shares of the columns of `window` (own time) that are not loaded, from the blocks of `row`. Empty
// if the run is in memory. O(blocks in the window + columns).
std::vector<HueShares> FoldSums(const RunView& run, const Row& row, const TrackWindow& window);

// Finds `span` again after the spans of `side` were reloaded; `nullopt` if it is no longer in
// memory. O(log n).
std::optional<SpanRef> Locate(const SidePair& sides, Side side, const Span& span);

}  // namespace foretrain::ui
