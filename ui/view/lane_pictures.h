// The spans of the visible lanes, painted for a frame: the wide ones one by one, the rest as class
// shares of pixel columns, and error lines. By the processor, for whom filling pixels is cheaper
// than handing over shapes. Leaves out labels and highlights (ui/view/lanes.cc).
#pragma once

#include <vector>

#include "ui/view/canvas.h"
#include "ui/view/theme.h"
#include "ui/view_model/compare_model.h"
#include "ui/view_model/layout.h"
#include "ui/view_model/search.h"

namespace foretrain::ui {

struct TrackRects {
  std::size_t lane = 0;
  Side side = Side::kPredicted;
  std::size_t row = 0;
  std::size_t track = 0;
  Box box{};
  std::vector<SpanRect> rects{};  // x in columns from the left of the plot
};

struct LanePictures {
  Image image{};  // of Layout::lanes between the plot's edges with the grid, one pixel a pixel
  std::vector<TrackRects> tracks{};
  std::size_t spans = 0;
  std::size_t folded_columns = 0;
  std::size_t visited = 0;
};

// Spans drawn one by one in all lanes together are at most this many.
inline constexpr std::size_t kMostSpans = 7000;

// `filter` null: all spans in full. Else the colours of folded spans whose hue it cannot take step
// back.
LanePictures MakeLanePictures(const CompareModel& model, const Layout& layout,
                              const Viewport& viewport, const Theme& theme,
                              const OpFilter* filter = nullptr);

// What steps back is mixed with the ground to this share.
inline constexpr float kDimmed = 0.16F;

}  // namespace foretrain::ui
