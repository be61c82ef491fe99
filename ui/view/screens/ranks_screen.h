// Every rank in every step as a heat map: slow ranks, waiting ranks, full ranks. Leaves out how the
// metrics are computed (ui/view_model/panels/rank_map.h).
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

 private:
  void Refresh();
  float DrawSentences(Canvas& canvas, const Box& box, float y);
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
  Box plot_;
  // The metric, place and ground that the picture was made for.
  std::optional<std::tuple<std::pair<std::uint64_t, int>, Box, Colour>> picture_of_;
  Picture picture_{};
};

}  // namespace foretrain::ui
