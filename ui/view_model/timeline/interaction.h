// Applies mouse and keyboard input to the view. Pure: one frame's input and the old state give the
// new state. ui/view/desktop/input.h supplies the input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ui/view_model/playback/playback.h"
#include "ui/view_model/runs/compare_model.h"
#include "ui/view_model/timeline/layout.h"

namespace foretrain::ui {

// One frame of input. Positions are in pixels of the window.
struct InputFrame {
  float x = -1.0F;
  float y = -1.0F;
  float dx = 0.0F;  // movement since the last frame
  float dy = 0.0F;
  float wheel = 0.0F;    // > 0 away from the user: zoom in
  float wheel_x = 0.0F;  // > 0 to the left: earlier
  bool down = false;     // left button
  bool pressed = false;  // pressed in this frame
  bool released = false;
  bool double_clicked = false;
  bool shift = false;
  bool control = false;
  bool escape = false;
  bool left = false, right = false, nearer = false, farther = false;  // held: A D W S
  int arrows = 0;  // presses of the right arrow key less those of the left one
  bool home = false, end = false;
  double elapsed_s = 0.0;
  std::vector<char32_t> typed{};
};

struct Measure {
  double from_ns = 0.0;  // displayed time; may lie after to_ns
  double to_ns = 0.0;
};

enum class Drag : std::uint8_t { kNone, kPan, kMeasure, kOverview, kLane };

struct ViewState {
  Viewport viewport{};
  float scroll = 0.0F;
  std::optional<SpanRef> selected{};
  std::size_t selected_lane = 0;
  std::size_t memory_lane = 0;
  std::optional<Hit> hovered{};
  std::optional<Measure> measure{};
  std::optional<std::size_t> worst{};  // index into CompareModel::worst
  std::vector<Viewport> undo{};
  std::optional<Side> path{};  // side whose critical path is shown
  bool searching = false;      // the search field is open
  bool counters = true;        // counters of the GPUs are shown beneath the lanes
  std::vector<SpanRef> found{};
  std::size_t found_at = 0;  // index of the selected one
  Drag drag = Drag::kNone;
  float moved = 0.0F;  // pixels since the button was pressed
  LaneOrder order{};
  std::size_t dragged_lane = 0;              // of Drag::kLane
  std::optional<std::size_t> gutter_lane{};  // lane whose name is under the mouse
  std::optional<std::size_t> reveal{};       // lane to scroll to once it is shown
  CompareOptions wanted{};                   // options that the model should be built with
  Playback play{};
};

// State of a new view: the whole step, and the memory of the fullest rank.
ViewState StartOf(const CompareModel& model);

// Carries `state` of a model with the options `before` over to a new model, keeping its place on
// the screen if that still exists. `same_runs` is false if the runs are newer.
ViewState CarryOver(const CompareOptions& before, bool same_runs, const CompareModel& after,
                    ViewState state);

// Applies one frame of input. The wheel zooms at the mouse, a drag pans, and with shift it
// measures. A click selects a span and the lane of the memory panel, a double click zooms to the
// span.
//
// Keys: W A S D zoom and pan, F fit, M counterpart, [ ] worst errors, comma and full stop steps, Q
// rows, P counters. G and Z B E K X alignment, C critical path, / search, N next found, U back,
// Escape clears. R L V order the lanes (ui/view_model/ranks/lane_keys.h).
void Update(const CompareModel& model, const Layout& layout, const InputFrame& input,
            ViewState& state);

// Selects entry `at` of CompareModel::worst and centres it.
void GoToWorst(const CompareModel& model, const Layout& layout, std::size_t at, ViewState& state);

// Selects found span `at` (modulo their number) and centres it without changing the zoom.
void GoToFound(const CompareModel& model, const Layout& layout, std::size_t at, ViewState& state);

}  // namespace foretrain::ui
