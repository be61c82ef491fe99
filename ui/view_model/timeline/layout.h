// Lays out the parts of the compare view within its box. Pure arithmetic.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "ui/view_model/ranks/lane_list.h"
#include "ui/view_model/runs/compare_model.h"
#include "ui/view_model/timeline/ticks.h"
#include "ui/view_model/timeline/viewport.h"

namespace foretrain::ui {

// [x0, x1) x [y0, y1) in pixels; hidden panels have no height.
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

// One counter's graph beneath the strips of a lane.
struct CounterBox {
  std::size_t counter = 0;  // index into Lane::counters
  Box box{};
};

struct LaneBox {
  std::size_t lane = 0;
  LaneRow row{};
  Box box{};                       // gutter included
  Box pin{};                       // in the gutter; empty without a list of lanes
  Box group{};                     // expands and closes its group; empty if it heads none
  std::vector<StripBox> strips{};  // forecast above measurement
  Box error{};                     // empty unless both runs are present
  std::vector<CounterBox> counters{};
};

struct ViewSize {
  float width = 1600.0F;
  float height = 900.0F;
  float scale = 1.0F;  // 2 on a screen of twice the density
};

struct Layout {
  float scale = 1.0F;
  Box window{};    // the whole view
  Box overview{};  // the whole step, above the axis; empty without a list of lanes
  Box axis{};
  Box lanes{};
  Box drift{};
  Box memory{};
  Box legend{};
  float plot_x0 = 0.0F;  // left edge of everything on the time axis
  float plot_x1 = 0.0F;
  float lane_height = 0.0F;
  float scroll = 0.0F;                // clamped to the content
  float max_scroll = 0.0F;            // > 0 if the lanes do not all fit
  std::vector<LaneBox> lane_boxes{};  // lanes that are at least partly visible
  // Null: all lanes by rank. Shared by the layouts of the screen that made it.
  std::shared_ptr<const LaneList> list{};

  int Columns() const { return plot_x1 > plot_x0 ? static_cast<int>(plot_x1 - plot_x0) : 0; }
  // Place of a lane among those that are shown; `nullopt` if another one stands for it.
  std::optional<std::size_t> PlaceOf(std::size_t lane) const;
};

// Boxes lie on whole pixels. Panels that do not fit a small `window` are left out: memory first,
// then drift. `scale`: 2 on a screen of twice the density. `memory_lane`: lane of the memory panel.
// `counters`: whether lanes show their counters. `list`: the lanes that are shown; null for all.
// O(visible lanes).
Layout MakeLayout(const CompareModel& model, const Box& window, float scale, float scroll,
                  std::size_t memory_lane, bool counters = false,
                  std::shared_ptr<const LaneList> list = nullptr);

// Ticks of the time axis that all panels share.
std::vector<Tick> AxisTicks(const Layout& layout, const Viewport& viewport);

// Part of a strip that belongs to track `track` of `tracks`.
Box TrackBox(const Box& strip, std::size_t track, std::size_t tracks);

// Minimum width in columns of a span that is drawn by itself, such that `tracks` tracks of
// `columns` columns make at most `max` rectangles; at least 3.
double MinColumns(int columns, std::size_t tracks, std::size_t max);

// The lane, side, time and span at a point.
struct Hit {
  std::size_t lane = 0;
  Side side = Side::kMeasured;
  double time_ns = 0.0;           // displayed time
  std::optional<SpanRef> span{};  // nullopt between spans
};

// `nullopt` outside the strips of lanes. A span narrower than two pixels is found within two
// pixels.
std::optional<Hit> HitTest(const CompareModel& model, const Layout& layout,
                           const Viewport& viewport, float x, float y);

// The graph of a counter at a point and the displayed time there; nullopt if there is none.
struct CounterHit {
  std::size_t lane = 0;
  std::size_t counter = 0;  // index into Lane::counters
  double time_ns = 0.0;
};
std::optional<CounterHit> CounterAt(const Layout& layout, const Viewport& viewport, float x,
                                    float y);

// Lane at a point, gutter included; nullopt if there is none.
std::optional<std::size_t> LaneAt(const Layout& layout, float x, float y);

}  // namespace foretrain::ui
