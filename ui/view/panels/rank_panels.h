// The panels of the Ranks view around its map: ranks with causes, one metric over steps, links.
#pragma once

#include <optional>
#include <vector>

#include "ui/view/screens/screen.h"
#include "ui/view_model/ranks/rank_table.h"

namespace foretrain::ui {

// The ranks as a table. Returns the rank that was clicked. `reference` names the other run; empty
// without one.
std::optional<int> DrawRankTable(const ScreenFrame& frame, const Box& box,
                                 const std::vector<RankEntry>& entries, RankMetric metric,
                                 std::string_view reference, int chosen);

// The chosen rank's metric over the steps, with the median and the highest of all ranks.
void DrawRankSeries(Canvas& canvas, const Box& box, const RankMap& map, const RankSeries& series,
                    int rank);

// Communication by class: bytes, rates of both runs, and the slowest rank.
void DrawLinkTable(const ScreenFrame& frame, const Box& box, const std::vector<LinkRow>& links,
                   Side shown, std::string_view reference);

}  // namespace foretrain::ui
