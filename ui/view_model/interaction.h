// What mouse and keyboard do to the view. Pure: one frame's input and the state before give the
// state after. Leaves out where input comes from (ui/view/input.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ui/view_model/compare_model.h"
#include "ui/view_model/layout.h"

namespace foretrain::ui {

// One frame of input. Positions in pixels of the window.
struct InputFrame {
  float x = -1.0F;
  float y = -1.0F;
  float dx = 0.0F;  // moved since the last frame
  float dy = 0.0F;
  float wheel = 0.0F;    // > 0 away from the user: nearer
  float wheel_x = 0.0F;  // > 0 to the left: earlier
  bool down = false;     // left button
  bool pressed = false;  // in this frame
  bool released = false;
  bool double_clicked = false;
  bool shift = false;
  bool control = false;
  bool escape = false;
  bool left = false, right = false, nearer = false, farther = false;  // held: A D W S
  double elapsed_s = 0.0;
  std::vector<char32_t> typed{};
};

struct Measure {
  double from_ns = 0.0;  // displayed time; may lie after to_ns
  double to_ns = 0.0;
};

enum class Drag : std::uint8_t { kNone, kPan, kMeasure };

struct ViewState {
  Viewport viewport{};
  float scroll = 0.0F;
  std::optional<SpanRef> selected{};
  std::size_t selected_lane = 0;
  std::size_t memory_lane = 0;
  std::optional<Hit> hovered{};
  std::optional<Measure> measure{};
  std::optional<std::size_t> worst{};  // place in CompareModel::worst
  std::vector<Viewport> undo{};
  std::optional<Side> path{};  // whose critical path is shown
  bool searching = false;      // the search field is open
  std::vector<SpanRef> found{};
  std::size_t found_at = 0;  // the one that is selected
  Drag drag = Drag::kNone;
  float moved = 0.0F;  // pixels since the button went down
  CompareOptions wanted{};  // what the model should be built with: compare with its options
};

// The state of a fresh view: the whole step, and the memory of the fullest rank.
ViewState StartOf(const CompareModel& model);

// Carries `state` of a model with the options `before` over to one with others or, unless
// `same_runs`, of newer runs: the same place on the screen where that still exists.
ViewState CarryOver(const CompareOptions& before, bool same_runs, const CompareModel& after,
                    ViewState state);

// One frame. The wheel zooms at the mouse, a drag pans, with shift it measures, a click selects and
// chooses whose memory is shown, a double click zooms to the span. Keys: W A S D zoom and pan, F
// fit, M twin, [ ] worst errors, comma and full stop steps, Q rows, G and Z B E K X alignment, C
// critical path, / search, N next found, U back, Escape clears.
void Update(const CompareModel& model, const Layout& layout, const InputFrame& input,
            ViewState& state);

// Puts place `at` of CompareModel::worst in the middle of the screen and selects it.
void GoToWorst(const CompareModel& model, const Layout& layout, std::size_t at, ViewState& state);

// Selects found span `at` (taken modulo their number) and puts it in the middle of the screen, as
// near as it was.
void GoToFound(const CompareModel& model, const Layout& layout, std::size_t at, ViewState& state);

}  // namespace foretrain::ui
