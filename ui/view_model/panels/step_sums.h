// A step with too many spans to be read at once, told from stored metrics and sums of its spans.
#pragma once

#include <string>
#include <vector>

#include "ui/view_model/panels/wait_rows.h"
#include "ui/view_model/runs/sides.h"

namespace foretrain::ui {

// Whether the chosen step has more spans than are read, so that only sums of them are known.
bool IsSummed(const SideModel& side);

// One sentence for each such side: which step, how many spans, and what reads them all.
std::vector<std::string> DescribeSummed(const SidePair& sides);

// Compute, exposed communication and copies, and idle time by cause: means over ranks that sum to
// the step. From stored metrics; a side that has none is empty. Empty if no side has any.
std::vector<WaitRow> ClassRows(const SidePair& sides);

// Busy time of the step by kind of work, means over ranks, from the sums. A block at an edge of the
// step counts by the share of its time inside. O(blocks).
std::vector<WaitRow> WorkRows(const SidePair& sides);

}  // namespace foretrain::ui
