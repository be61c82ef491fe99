// The ranks of a run: every rank in every step as a heat map, the ranks that differ most and why,
// one rank over the steps, and links. Leaves out how these are computed
// (ui/view_model/panels/rank_map.h, ui/view_model/ranks/rank_table.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ui/view/desktop/desktop_state.h"
#include "ui/view/screens/screen.h"
#include "ui/view_model/panels/rank_map.h"
#include "ui/view_model/ranks/rank_table.h"

namespace foretrain::ui {

class RanksScreen final : public Screen {
 public:
  // `desktop` must outlive this.
  explicit RanksScreen(DesktopState& desktop) : desktop_(desktop) {}

  void Draw(const ScreenFrame& frame) override;
  std::vector<HelpLine> Help() const override;

  const RankMap& map() const { return map_; }
  // The box in which the map was drawn.
  const Box& plot() const { return plot_; }
  const std::vector<RankEntry>& entries() const { return entries_; }
  // The rank whose steps are drawn.
  int chosen() const { return chosen_; }

 private:
  void Refresh();
  float DrawSentences(Canvas& canvas, const Box& box, float y);
  void RefreshPanels();
  void Choose(int rank);
  void DrawPanels(const ScreenFrame& frame, const Box& box);
  void DrawMap(const ScreenFrame& frame, const Box& box);
  void DrawStepNames(Canvas& canvas, const FoldedRankMap& folded);
  void DrawRankRow(Canvas& canvas, const FoldedRankMap& folded, std::size_t row, const Box& names,
                   const Box& metrics);
  void DrawCells(const ScreenFrame& frame, const FoldedRankMap& folded);
  void DrawValues(Canvas& canvas, const FoldedRankMap& folded);
  void OnCell(const ScreenFrame& frame, const FoldedRankMap& folded);
  void DrawScale(Canvas& canvas, Point at, float width);
  Colour ColourOf(const Theme& theme, double value) const;

  DesktopState& desktop_;
  std::optional<std::pair<std::uint64_t, int>> made_of_;  // input number and metric
  int metric_ = 0;
  RankMap map_;
  std::vector<std::string> sentences_;
  std::vector<Straggler> stragglers_;
  double min_ = 0.0;                                        // as in StragglersOf
  std::optional<std::pair<std::uint64_t, int>> panels_of_;  // model number and metric
  std::vector<RankEntry> entries_;
  std::vector<LinkRow> links_;
  RankSeries series_;
  int chosen_ = -1;
  bool panels_ = false;  // drawn in this frame
  Box plot_;
  // The metric, place and ground that the picture was made for.
  std::optional<std::tuple<std::pair<std::uint64_t, int>, Box, Colour>> picture_of_;
  Picture picture_{};
};

}  // namespace foretrain::ui
