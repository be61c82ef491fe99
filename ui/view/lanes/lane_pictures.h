// Paints the spans of the visible lanes: wide spans one by one, the rest as class shares per pixel
// column, and error lines. The CPU paints, because filling pixels is cheaper than handing shapes to
// the renderer. ui/view/lanes/lanes.cc draws labels and highlights.
#pragma once

#include <vector>

#include "ui/view/widgets/canvas.h"
#include "ui/view/widgets/theme.h"
#include "ui/view_model/runs/compare_model.h"
#include "ui/view_model/runs/search.h"
#include "ui/view_model/timeline/layout.h"

namespace foretrain::ui {

struct TrackRects {
  std::size_t lane = 0;
  Side side = Side::kPredicted;
  std::size_t row = 0;
  std::size_t track = 0;
  Box box{};
  std::vector<SpanRect> rects{};  // x in columns from the left edge of the plot
};

struct LanePictures {
  Image image{};  // pixels of Layout::lanes between the plot's edges, grid included
  std::vector<TrackRects> tracks{};
  std::size_t spans = 0;
  std::size_t folded_columns = 0;
  std::size_t visited = 0;
};

// Maximum number of spans drawn one by one in all lanes together.
inline constexpr std::size_t kMaxSpans = 7000;

// If `filter` is null, all spans are drawn in full. Otherwise excluded spans, and shares of hues
// that it excludes, are dimmed.
LanePictures MakeLanePictures(const CompareModel& model, const Layout& layout,
                              const Viewport& viewport, const Theme& theme,
                              const OpFilter* filter = nullptr);

// Share of their own colour that dimmed spans keep.
inline constexpr float kDimmed = 0.16F;

}  // namespace foretrain::ui
