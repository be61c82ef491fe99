// Idle time and its causes as rows of a table with both runs: the pipeline bubble by cause, and
// exposed communication by the reason of its wait.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "traces/metrics/bubble_causes.h"
#include "ui/view_model/runs/sides.h"

namespace foretrain::ui {

struct WaitRow {
  std::string name;
  std::string explained;                         // one sentence
  std::array<std::optional<double>, 2> seconds;  // by side; nullopt if unknown
  bool total = false;                            // sum of the rows before it
};

// Causes of the bubble in the side's step. nullopt if there is no pipeline, there are no spans, or
// steps overlap.
std::optional<BubbleCauses> BubbleCausesOf(const SideModel& side);

// One row per cause and their sum, means over stages; empty if neither run has a bubble.
std::vector<WaitRow> BubbleRows(const std::array<std::optional<BubbleCauses>, 2>& causes);

// Exposed communication of the chosen steps, means over ranks: on the wire, waiting for the last
// rank, and unknown. Empty if neither run communicates.
std::vector<WaitRow> ExposedRows(const SidePair& sides);

// "schedule 52 %, imbalance 31 %, transfers 17 %": largest first, parts below 1 % left out.
std::string DescribeBubble(const BubbleCauses& causes);

}  // namespace foretrain::ui
