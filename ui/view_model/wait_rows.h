// What stands still and why, as rows of a table with both runs: the pipeline's bubble by cause and
// exposed communication by what it waits for. Leaves out pixels.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "traces/metrics/bubble_causes.h"
#include "traces/metrics/skew.h"
#include "ui/view_model/sides.h"

namespace foretrain::ui {

struct WaitRow {
  std::string name;
  std::string explained;                         // one sentence
  std::array<std::optional<double>, 2> seconds;  // [side]; nothing where it is not known
  bool total = false;                            // the sum of the rows before it
};

// The causes of the bubble in the side's step, or nothing: no pipeline, no spans, steps that
// overlap.
std::optional<BubbleCauses> BubbleCausesOf(const SideModel& side);

// A row a cause and their sum, means over stages; empty where neither run has a bubble.
std::vector<WaitRow> BubbleRows(const std::array<std::optional<BubbleCauses>, 2>& causes);

// Exposed communication of the chosen steps, means over ranks: on the wire, waiting for the last
// rank, and where that is not known; empty where neither run communicates.
std::vector<WaitRow> ExposedRows(const SidePair& sides);

// "schedule 52 %, imbalance 31 %, transfers 17 %": largest first, parts of 1 % and more.
std::string DescribeBubble(const BubbleCauses& causes);

}  // namespace foretrain::ui
