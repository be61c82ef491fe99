// Where the parts of the compare view lie in its box. Pure arithmetic: leaves out drawing.
#pragma once

#include <cstddef>
#include <vector>

#include "ui/view_model/compare_model.h"
#include "ui/view_model/ticks.h"
#include "ui/view_model/viewport.h"

namespace foretrain::ui {

// [x0, x1) x [y0, y1) in pixels; empty panels have no height.
struct Box {
  float x0 = 0.0F;
  float y0 = 0.0F;
  float x1 = 0.0F;
  float y1 = 0.0F;

  float Width() const { return x1 - x0; }
  float Height() const { return y1 - y0; }
  bool IsEmpty() const { return x1 <= x0 || y1 <= y0; }
  bool Contains(float x, float y) const { return x >= x0 && x < x1 && y >= y0 && y < y1; }
  bool operator==(const Box&) const = default;
};

// One row of one run in a lane.
struct StripBox {
  Side side = Side::kPredicted;
  std::size_t row = 0;  // index into Lane::rows[side]
  Box box{};
};

struct LaneBox {
  std::size_t lane = 0;
  Box box{};                       // with its gutter
  std::vector<StripBox> strips{};  // the forecast above what was measured
  Box error{};                     // empty unless both runs are there
};

struct ViewSize {
  float width = 1600.0F;
  float height = 900.0F;
  float scale = 1.0F;  // 2 on a screen of twice the density
};

struct Layout {
  float scale = 1.0F;
  Box window{};  // all of it
  Box axis{};
  Box lanes{};
  Box drift{};
  Box memory{};
  Box legend{};
  float plot_x0 = 0.0F;  // of everything that shares the time axis
  float plot_x1 = 0.0F;
  float lane_height = 0.0F;
  float scroll = 0.0F;                // held to the content
  float most_scroll = 0.0F;           // > 0: lanes do not all fit
  std::vector<LaneBox> lane_boxes{};  // those at least partly visible

  int Columns() const { return plot_x1 > plot_x0 ? static_cast<int>(plot_x1 - plot_x0) : 0; }
};

// Boxes lie on whole pixels. Panels that do not fit a small `window` are left out: memory first,
// then drift. `scale`: 2 on a screen of twice the density. `memory_lane`: whose memory is shown.
// O(visible lanes).
Layout MakeLayout(const CompareModel& model, const Box& window, float scale, float scroll,
                  std::size_t memory_lane);

// Of the time axis that all panels share.
std::vector<Tick> AxisTicks(const Layout& layout, const Viewport& viewport);

// The part of a strip that belongs to track `track` of `tracks`.
Box TrackBox(const Box& strip, std::size_t track, std::size_t tracks);

// The fewest columns a span must be wide to be drawn by itself, so that `tracks` tracks of
// `columns` columns make at most `most` rectangles; 3 where there is room.
double LeastColumns(int columns, std::size_t tracks, std::size_t most);

// What lies under a point.
struct Hit {
  std::size_t lane = 0;
  Side side = Side::kMeasured;
  double time_ns = 0.0;  // displayed time
  std::optional<SpanRef> span{};
};

// Nothing outside the strips of a lane. A span that is narrower than two pixels is found within two
// of it.
std::optional<Hit> HitTest(const CompareModel& model, const Layout& layout,
                           const Viewport& viewport, float x, float y);

// The lane at a point, its gutter too.
std::optional<std::size_t> LaneAt(const Layout& layout, float x, float y);

}  // namespace foretrain::ui
