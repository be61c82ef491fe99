#include "ui/view_model/timeline/interaction.h"

#include <algorithm>
#include <cmath>

#include "ui/view_model/ranks/lane_keys.h"

namespace foretrain::ui {
namespace {

constexpr float kClickSlop = 4.0F;  // maximum movement of a click, in pixels
constexpr std::size_t kMaxUndo = 100;
constexpr double kHeldScreens = 0.8;           // screens per second while a key is held
constexpr double kHeldNotches = 7.0;           // per second
constexpr double kFarthestCounterpart = 16.0;  // in lengths of the span
constexpr double kWheelScreens = 0.08;         // screens per notch of a horizontal wheel

// Adds the view to the undo list, which drops its oldest entry when it is full.
void Remember(ViewState& state) {
  if (!state.undo.empty() && state.undo.back() == state.viewport) return;
  if (state.undo.size() == kMaxUndo) state.undo.erase(state.undo.begin());
  state.undo.push_back(state.viewport);
}

double MiddleOf(const CompareModel& model, const SpanRef& ref) {
  const Span& span = model.SpanOf(ref);
  const SideModel& side = model.Of(ref.side);
  return (side.Displayed(span.start_ns) + side.Displayed(span.end_ns)) / 2;
}

void ZoomToSpan(const CompareModel& model, const SpanRef& ref, ViewState& state) {
  Remember(state);
  const Span& span = model.SpanOf(ref);
  const SideModel& side = model.Of(ref.side);
  state.viewport = Around(side.Displayed(span.start_ns), side.Displayed(span.end_ns), model.all);
}

// Shows the counterpart where the span was, or in the middle if the span was off the screen.
void GoToCounterpart(const CompareModel& model, const Layout& layout, ViewState& state) {
  std::optional<SpanRef> from = state.selected;
  std::size_t lane = state.selected_lane;
  if (!from.has_value() && state.hovered.has_value()) {
    from = state.hovered->span;
    lane = state.hovered->lane;
  }
  if (!from.has_value() || lane >= model.lanes.size()) return;
  const std::optional<SpanRef> counterpart = CounterpartOf(model, model.lanes[lane].rank, *from);
  if (!counterpart.has_value()) return;
  Remember(state);
  const double before = MiddleOf(model, *from);
  const Viewport view = state.viewport;
  const bool visible = before >= view.start_ns && before < view.end_ns;
  const double at = visible ? before : view.start_ns + view.LengthNs() / 2;
  const double by = MiddleOf(model, *counterpart) - at;
  state.viewport = {view.start_ns + by, view.end_ns + by};
  state.selected = counterpart;
  state.selected_lane = lane;
  ScrollToLane(layout, lane, state);
}

// Wraps around at both ends.
void NextWorst(const CompareModel& model, const Layout& layout, int by, ViewState& state) {
  const auto count = static_cast<int>(model.worst.size());
  if (count == 0) return;
  const int now = state.worst.has_value() ? static_cast<int>(*state.worst) : (by > 0 ? -1 : count);
  GoToWorst(model, layout, static_cast<std::size_t>((now + by + count) % count), state);
}

// Changes the step of the measured run, or of the forecast if there is no other run.
void ChangeStep(const CompareModel& model, int by, ViewState& state) {
  const Side side = model.Of(Side::kMeasured).IsPresent() ? Side::kMeasured : Side::kPredicted;
  const SideModel& of = model.Of(side);
  const auto at = std::find(of.steps.begin(), of.steps.end(), of.step);
  if (at == of.steps.end()) return;
  const auto place = (at - of.steps.begin()) + by;
  if (place < 0 || place >= static_cast<std::ptrdiff_t>(of.steps.size())) return;
  auto& wanted = side == Side::kMeasured ? state.wanted.measured_step : state.wanted.predicted_step;
  wanted = of.steps[static_cast<std::size_t>(place)];
}

void Fit(const CompareModel& model, ViewState& state) {
  Remember(state);
  state.viewport = Fitted(model.extent);
}

void Toggle(char32_t key, ViewState& state) {
  LaneRows& rows = state.wanted.rows;
  if (key == U'q') rows = rows == LaneRows::kMerged ? LaneRows::kQueues : LaneRows::kMerged;
  if (key == U'p') state.counters = !state.counters;
  if (key == U'u' && !state.undo.empty()) {
    state.viewport = state.undo.back();
    state.undo.pop_back();
  }
}

// Lane and op to align at: the selected one, otherwise the one under the mouse.
std::optional<Anchor> AnchorOf(const CompareModel& model, const ViewState& state) {
  std::optional<SpanRef> span = state.selected;
  std::size_t lane = state.selected_lane;
  if (!span.has_value() && state.hovered.has_value()) {
    span = state.hovered->span;
    lane = state.hovered->lane;
  }
  if (!span.has_value() || lane >= model.lanes.size()) return std::nullopt;
  return Anchor{model.lanes[lane].rank, model.SpanOf(*span).op};
}

// Ignored if the alignment needs an anchor and there is none.
void SetAlignment(const CompareModel& model, Alignment alignment, ViewState& state) {
  const std::optional<Anchor> anchor = AnchorOf(model, state);
  const bool anchored = alignment == Alignment::kSelectedOp;
  if (anchored && !anchor.has_value()) return;  // nothing to align at
  state.wanted.alignment = alignment;
  state.wanted.anchor = anchored || alignment == Alignment::kMicroBatch ? anchor : std::nullopt;
}

// Switches to the next alignment that is possible.
void NextAlignment(const CompareModel& model, ViewState& state) {
  for (int i = 1; i < kAlignmentCount; ++i) {
    const int next = (static_cast<int>(state.wanted.alignment) + i) % kAlignmentCount;
    const auto alignment = static_cast<Alignment>(next);
    if (alignment == Alignment::kSelectedOp && !AnchorOf(model, state).has_value()) continue;
    return SetAlignment(model, alignment, state);
  }
}

// Cycles through measured, predicted and none, skipping a side that is missing.
void NextPath(const CompareModel& model, ViewState& state) {
  const auto from = [&](int first) -> std::optional<Side> {
    for (const Side side : {Side::kMeasured, Side::kPredicted}) {
      if ((side == Side::kPredicted) < first) continue;
      if (model.Of(side).IsPresent()) return side;
    }
    return std::nullopt;
  };
  state.path = !state.path.has_value()          ? from(0)
               : *state.path == Side::kMeasured ? from(1)
                                                : std::nullopt;
}

// Upper and lower case are the same key.
void OnKey(const CompareModel& model, const Layout& layout, char32_t typed, ViewState& state) {
  const char32_t key = typed >= U'A' && typed <= U'Z' ? typed + (U'a' - U'A') : typed;
  switch (key) {
    case U'f':
      return Fit(model, state);
    case U'm':
      return GoToCounterpart(model, layout, state);
    case U']':
      return NextWorst(model, layout, 1, state);
    case U'[':
      return NextWorst(model, layout, -1, state);
    case U'n':
      return GoToFound(model, layout, state.found_at + 1, state);
    case U'/':
      state.searching = true;
      return;
    case U'c':
      return NextPath(model, state);
    case U'g':
      return NextAlignment(model, state);
    case U'z':
      return SetAlignment(model, Alignment::kStepStart, state);
    case U'b':
      return SetAlignment(model, Alignment::kMicroBatch, state);
    case U'e':
      return SetAlignment(model, Alignment::kSelectedOp, state);
    case U'k':
      return SetAlignment(model, Alignment::kWallClock, state);
    case U'x':
      return SetAlignment(model, Alignment::kWarp, state);
    case U',':
      return ChangeStep(model, -1, state);
    case U'.':
      return ChangeStep(model, 1, state);
    default:
      if (!OnLaneKey(model, key, state)) Toggle(key, state);
  }
}

// Speed is relative to time, not to frames; a long frame counts as at most 0.1 s.
void OnHeldKeys(const CompareModel& model, const InputFrame& input, ViewState& state) {
  const double seconds = std::min(input.elapsed_s, 0.1);
  const double screens = kHeldScreens * seconds * (input.right - input.left);
  if (screens != 0.0) {
    state.viewport = Panned(state.viewport, screens * state.viewport.LengthNs(), model.all);
  }
  const double notches = kHeldNotches * seconds * (input.nearer - input.farther);
  if (notches != 0.0) {
    const double middle = state.viewport.start_ns + state.viewport.LengthNs() / 2;
    state.viewport = Zoomed(state.viewport, middle, notches, model.all);
  }
}

double TimeAt(const Layout& layout, const ViewState& state, float x) {
  return state.viewport.ToTime(x - layout.plot_x0, std::max(1, layout.Columns()));
}

// A press starts a pan, or a measured range with shift. Whether it was a click is decided at
// release, by the distance moved. The gutter and the overview have drags of their own.
void OnPress(const CompareModel& model, const Layout& layout, const InputFrame& input,
             ViewState& state) {
  const bool on_plot = layout.window.Contains(input.x, input.y) && input.y < layout.legend.y0;
  if (!on_plot) return;
  if (layout.overview.Contains(input.x, input.y)) Remember(state);
  if (OnLanePress(model, layout, input, state)) return;
  state.moved = 0.0F;
  state.drag = input.shift ? Drag::kMeasure : Drag::kPan;
  const double at = TimeAt(layout, state, input.x);
  if (input.shift) state.measure = Measure{at, at};
}

void OnMove(const CompareModel& model, const Layout& layout, const InputFrame& input,
            ViewState& state) {
  state.moved += std::abs(input.dx) + std::abs(input.dy);
  if (state.drag == Drag::kMeasure) {
    state.measure->to_ns = TimeAt(layout, state, input.x);
    return;
  }
  if (OnLaneMove(model, layout, input, state)) return;
  const double by = -input.dx * state.viewport.LengthNs() / std::max(1, layout.Columns());
  state.viewport = Panned(state.viewport, by, model.all);
  state.scroll = std::clamp(state.scroll - input.dy, 0.0F, layout.max_scroll);
}

// A click clears the selection first: on empty ground it only deselects.
void OnClick(const Layout& layout, const InputFrame& input, ViewState& state) {
  state.measure.reset();
  state.worst.reset();
  state.selected.reset();
  if (const auto lane = LaneAt(layout, input.x, input.y)) state.memory_lane = *lane;
  if (!state.hovered.has_value()) return;
  state.selected = state.hovered->span;
  state.selected_lane = state.hovered->lane;
}

// Zooms to the span that the first click selected: a panel that opened since may have moved it.
void OnDoubleClick(const CompareModel& model, ViewState& state) {
  const auto hovered = state.hovered.has_value() ? state.hovered->span : std::nullopt;
  const std::optional<SpanRef> span = state.selected.has_value() ? state.selected : hovered;
  if (!span.has_value()) return;
  ZoomToSpan(model, *span, state);
  state.moved = kClickSlop + 1.0F;  // the release that follows is no click
}

// With control it scrolls the lanes; otherwise it zooms at the mouse.
void OnWheel(const CompareModel& model, const Layout& layout, const InputFrame& input,
             ViewState& state) {
  if (input.control) {
    state.scroll =
        std::clamp(state.scroll - input.wheel * layout.lane_height / 2, 0.0F, layout.max_scroll);
    return;
  }
  const float x = std::clamp(input.x, layout.plot_x0, layout.plot_x1);
  state.viewport = Zoomed(state.viewport, TimeAt(layout, state, x), input.wheel, model.all);
}

// While dragging there is no hover, since the span under the mouse moves with it.
void OnMouse(const CompareModel& model, const Layout& layout, const InputFrame& input,
             ViewState& state) {
  if (input.pressed) OnPress(model, layout, input, state);
  if (state.drag != Drag::kNone && input.down && !input.pressed) {
    OnMove(model, layout, input, state);
  }
  state.hovered.reset();
  if (state.drag == Drag::kNone || state.moved <= kClickSlop) {
    state.hovered = HitTest(model, layout, state.viewport, input.x, input.y);
  }
  if (input.released && state.drag != Drag::kNone) {
    const bool click = state.moved <= kClickSlop && state.drag != Drag::kOverview;
    click ? OnClick(layout, input, state) : OnLaneDrop(model, layout, input, state);
    state.drag = Drag::kNone;
  }
  if (input.double_clicked) OnDoubleClick(model, state);
  if (input.wheel != 0.0F) OnWheel(model, layout, input, state);
  if (input.wheel_x != 0.0F) {
    const double by = -kWheelScreens * input.wheel_x * state.viewport.LengthNs();
    state.viewport = Panned(state.viewport, by, model.all);
  }
}

}  // namespace

// Selects the lane of the rank with the highest peak in the chosen step for the memory panel.
ViewState StartOf(const CompareModel& model) {
  ViewState state{.viewport = Fitted(model.extent)};
  state.wanted = model.options;
  state.order.grouped = model.lanes.size() > kMaxLoneLanes;
  std::int64_t max = -1;
  for (const Side side : kSides) {
    if (!model.Of(side).IsPresent()) continue;
    for (const MemoryPeak& peak : model.Of(side).metrics->memory) {
      const auto lane = LaneOfRank(model, peak.rank);
      if (peak.step != model.Of(side).step || peak.space != Space::kDevice || !lane ||
          peak.bytes <= max)
        continue;
      max = peak.bytes;
      state.memory_lane = *lane;
    }
  }
  return state;
}

// Carries over everything that still has a meaning. Spans are named by index, so selections do not
// survive another step or newer runs.
ViewState CarryOver(const CompareOptions& before, bool same_runs, const CompareModel& after,
                    ViewState state) {
  const bool moved =
      before.alignment != after.options.alignment || before.anchor != after.options.anchor;
  if (moved) state.viewport = Fitted(after.extent);
  if (!same_runs || before.measured_step != after.options.measured_step ||
      before.predicted_step != after.options.predicted_step) {
    state.selected.reset();
    state.worst.reset();
    state.found.clear();
    state.found_at = 0;
  }
  if (!same_runs) state.order = {.grouped = after.lanes.size() > kMaxLoneLanes};
  // A warp changes the order of the forecast's spans.
  const bool warped =
      before.alignment == Alignment::kWarp || after.options.alignment == Alignment::kWarp;
  if (moved && warped && state.selected.has_value() && state.selected->side == Side::kPredicted) {
    state.selected.reset();
  }
  if (moved && warped) state.found.clear();
  state.hovered.reset();
  if (state.memory_lane >= after.lanes.size()) state.memory_lane = 0;
  if (state.selected_lane >= after.lanes.size()) state.selected.reset();
  return state;
}

// The pair names the op, but the selection needs a span: it is searched in the tracks of the lane.
void GoToWorst(const CompareModel& model, const Layout& layout, std::size_t at, ViewState& state) {
  if (at >= model.worst.size()) return;
  const PairedOp& pair = model.pairs[model.worst[at]];
  const std::optional<std::size_t> lane = LaneOfRank(model, pair.rank);
  if (!lane.has_value()) return;
  Remember(state);
  const SideModel& measured = model.Of(Side::kMeasured);
  const SideModel& predicted = model.Of(Side::kPredicted);
  double start = measured.Displayed(pair.measured->start_ns);
  double end = measured.Displayed(pair.measured->end_ns);
  // Shows the counterpart too, unless it is so far away that neither would be visible.
  const double first = std::min(start, predicted.Displayed(pair.predicted->start_ns));
  const double last = std::max(end, predicted.Displayed(pair.predicted->end_ns));
  if (last - first <= kFarthestCounterpart * (end - start)) {
    start = first;
    end = last;
  }
  state.viewport = Around(start, end, model.all);
  state.worst = at;
  state.selected_lane = *lane;
  state.selected.reset();
  // The op may be one span or an instruction's spans; the first one is selected.
  for (const Row& row : model.lanes[*lane].rows[Index(Side::kMeasured)]) {
    for (const Track& track : row.tracks) {
      const std::size_t i = track.FirstEndingAfter(static_cast<double>(pair.measured->start_ns));
      if (i == track.size() || state.selected.has_value()) continue;
      const Span& span = track.SpanAt(i);
      if (span.op == pair.measured->op || InstructionOf(span.op) == pair.op) {
        state.selected = SpanRef{Side::kMeasured, track.IndexAt(i)};
      }
    }
  }
  ScrollToLane(layout, *lane, state);
}

// Keeps the zoom, so that found spans can be compared at the same scale.
void GoToFound(const CompareModel& model, const Layout& layout, std::size_t at, ViewState& state) {
  if (state.found.empty()) return;
  state.found_at = at % state.found.size();
  const SpanRef ref = state.found[state.found_at];
  const std::optional<std::size_t> lane = LaneOf(model, ref);
  if (!lane.has_value()) return;
  Remember(state);
  state.selected = ref;
  state.selected_lane = *lane;
  const double length = state.viewport.LengthNs();
  const double start = MiddleOf(model, ref) - length / 2;
  state.viewport = {start, start + length};
  ScrollToLane(layout, *lane, state);
}

// Keys come before the mouse, so that a hover is determined in the final view.
void Update(const CompareModel& model, const Layout& layout, const InputFrame& input,
            ViewState& state) {
  for (const char32_t key : input.typed) OnKey(model, layout, key, state);
  if (input.escape) {
    state.searching = false;
    state.found.clear();
    state.path.reset();
    state.selected.reset();
    state.measure.reset();
    state.worst.reset();
  }
  OnHeldKeys(model, input, state);
  OnMouse(model, layout, input, state);
}

}  // namespace foretrain::ui
