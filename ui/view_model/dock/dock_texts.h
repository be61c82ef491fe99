// Tables and command lines of the panel under the lanes, which its buttons copy. Leaves out drawing
// (ui/view/dock).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/table.h"
#include "traces/metrics/range/range_sums.h"
#include "traces/run.h"
#include "ui/store_access.h"
#include "ui/view_model/timeline/hover.h"
#include "ui/view_model/timeline/interaction.h"

namespace foretrain::ui {

// The measured part of the chosen step of `side`, in that run's own time; the whole step if nothing
// is measured. What lies before the step is left out, because the command line cannot name it.
// Errors: kInvalidArgument, a sentence on why there is nothing to sum.
Result<SummedRange> RangeOf(const SidePair& sides, Side side,
                            const std::optional<Measure>& measure);

// A sentence if some spans of the range are not in memory and so are not summed; otherwise empty.
std::string DescribeGaps(const SideModel& side, const SummedRange& range);

// Number of the stored run of `side`: the shown run is `shown.run`, and the other one is named by
// `shown.against` or is the shown run's forecast. `nullopt` if no store is open.
std::optional<RunId> RunIdOf(const SidePair& sides, Side side, const StoreRequest& shown,
                             const std::vector<RunInfo>& runs);

// The `foretrain analyze` command that prints the same table for step `side.step`.
std::string CommandOf(const std::string& store, RunId run, const SideModel& side, SumBy by,
                      const SummedRange& range);

// Name and value of each detail.
Table TableOf(const HoverText& details);
// Op, place, rank, start and length of each found span.
Table TableOf(const CompareModel& model, const std::vector<SpanRef>& found);
// The texts of one found span.
std::vector<std::string> CellsOf(const CompareModel& model, const SpanRef& ref);
std::vector<std::string> TitlesOfFound();  // those of Table: ">" aligns to the right

}  // namespace foretrain::ui
