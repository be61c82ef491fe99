// Runs too long to be read whole: which part of them a view needs, and the picture of the rest from
// sums of spans. Leaves out reading (StoreAccess).
#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ui/run_view.h"
#include "ui/view_model/lanes.h"
#include "ui/view_model/sides.h"
#include "ui/view_model/viewport.h"

namespace foretrain::ui {

// No more spans of a run than this are in memory at a time.
inline constexpr std::int64_t kMostLoadedSpans = 300'000;

// What is to be read of each side. Of one that needs nothing: what it has.
using WantedParts = std::array<std::vector<Stretch>, 2>;

// The chosen step of each long run, and what `viewport` shows of it with half its length on either
// side, each where it holds at most kMostLoadedSpans; nothing where all that is in memory already,
// or nothing of it can be. `viewport`: null where no timeline is shown. O(blocks).
std::optional<WantedParts> PartsToLoad(const SidePair& sides, const Viewport* viewport);

// One sentence on what of a long run is shown how; empty of others.
std::string DescribeLoading(const SideModel& side, Side which);

// Metrics of a run: of its timeline, or, of a long one, those that were stored, with single ranks
// in the steps that are loaded.
Metrics MetricsOfRun(const RunView& run);

// Shares of the columns of `window` (own time) that are not in memory, from the blocks of `row`.
// Empty where the run is in memory. O(blocks in the window + columns).
std::vector<HueShares> FoldSums(const RunView& run, const Row& row, const TrackWindow& window);

// The span of `side` that is `span`, after the spans of the run were read anew; nothing where it is
// not in memory any more. O(log n).
std::optional<SpanRef> Locate(const SidePair& sides, Side side, const Span& span);

}  // namespace foretrain::ui
