// Memory of one rank over a step: stacked by category with the forecast over it, the live tensors
// at the peak, and the headroom. Leaves out how these are computed
// (ui/view_model/panels/memory_model.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ui/view/desktop/desktop_state.h"
#include "ui/view/panels/live_panel.h"
#include "ui/view/panels/memory_plot.h"
#include "ui/view/screens/screen.h"
#include "ui/view_model/panels/memory_model.h"

namespace foretrain::ui {

class MemoryScreen final : public Screen {
 public:
  // `desktop` must outlive this.
  explicit MemoryScreen(DesktopState& desktop) : desktop_(desktop) {}

  void Draw(const ScreenFrame& frame) override;
  bool IsMoving() const override { return live_.IsBusy(); }
  std::vector<HelpLine> Help() const override;

  const MemoryModel& model() const { return model_; }

 private:
  struct PictureKey {
    Box box{};
    Viewport viewport{};
    double top_bytes = 0.0;
    Colour ground{};
    std::uint64_t made = 0;

    bool operator==(const PictureKey& other) const = default;
  };

  void Refresh();
  void DrawChoices(const ScreenFrame& frame, const Box& box);
  void DrawKey(Canvas& canvas, const Box& box);
  void DrawPlot(const ScreenFrame& frame, const Box& box);
  void DrawMetrics(const ScreenFrame& frame, const Box& box);
  float DrawPeakLine(Canvas& canvas, const Box& box, float y, Side side);
  // Returns the y at which the rows end.
  float DrawRows(const ScreenFrame& frame, const Box& box, float y);

  DesktopState& desktop_;
  std::optional<std::uint64_t> model_number_;
  MemoryModel model_;
  std::uint64_t made_ = 0;  // models so far
  std::optional<int> rank_;
  std::optional<Space> space_;
  Viewport viewport_;
  std::optional<PictureKey> key_;
  Picture picture_{};
  LivePanel live_;
};

}  // namespace foretrain::ui
