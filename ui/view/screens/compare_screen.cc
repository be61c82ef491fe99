#include "ui/view/screens/compare_screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "ui/view/lanes/gutter.h"
#include "ui/view/lanes/overview.h"
#include "ui/view/lanes/segments.h"
#include "ui/view/playback/playhead.h"
#include "ui/view/widgets/widgets.h"
#include "ui/view_model/panels/counter_rows.h"
#include "ui/view_model/ranks/lane_keys.h"
#include "ui/view_model/runs/long_runs.h"

namespace foretrain::ui {
namespace {

// The most visible change between two sets of options, for the chip that is shown while a model is
// built.
std::string_view ChangeText(const CompareOptions& shown, const CompareOptions& wanted) {
  if (shown.measured_step != wanted.measured_step ||
      shown.predicted_step != wanted.predicted_step) {
    return "going to the step...";
  }
  return shown.rows != wanted.rows ? "arranging rows..." : "aligning...";
}

// -1 stands for a side without steps.
std::string StepText(const SideModel& side) {
  if (side.step < 0) return "no steps";
  const bool median = side.metrics->overall.has_value() && side.metrics->overall->step == side.step;
  return fmt::format("step {}, {} {}", side.step, median ? "median of" : "one of",
                     side.steps.size());
}

// Steps, window and moment as the options of `view` take them: default where the view has them so.
ViewLink LinkOf(const CompareModel& model, const ViewState& state) {
  ViewLink link;
  const CompareOptions& options = model.options;
  link.step =
      model.Of(Side::kMeasured).IsPresent() ? options.measured_step : options.predicted_step;
  link.wall_clock = options.alignment == Alignment::kWallClock;
  link.queues = options.rows == LaneRows::kQueues;
  if (state.viewport != Fitted(model.extent)) {
    link.window_start_s = state.viewport.start_ns / kNsPerSecond;
    link.window_end_s = state.viewport.end_ns / kNsPerSecond;
  }
  if (state.play.on) link.moment_s = state.play.at_ns / kNsPerSecond;
  return link;
}

// A counter has a tooltip before a span has one, and a span before a gap.
void DrawMouse(const Frame& frame, const InputFrame& input) {
  DrawCursor(frame, input.x, input.y);
  const ViewState& state = frame.state;
  if (state.drag != Drag::kPan) {
    const auto counter =
        HoverOfCounter(frame.model, frame.layout, state.viewport, input.x, input.y);
    if (counter.has_value()) {
      return DrawTooltip(frame.canvas, frame.layout.window, *counter, {input.x, input.y});
    }
  }
  if (const auto names = HoverOfGutter(frame, {input.x, input.y}); names.has_value()) {
    return DrawTooltip(frame.canvas, frame.layout.window, *names, {input.x, input.y});
  }
  if (!state.hovered.has_value()) return;
  const Hit& hit = *state.hovered;
  if (hit.span.has_value()) {
    const int rank = frame.model.lanes[hit.lane].rank;
    DrawTooltip(frame.canvas, frame.layout.window, HoverOfSpan(frame.model, rank, *hit.span),
                {input.x, input.y});
    return;
  }
  const auto gap = HoverOfGap(frame.model, hit.lane, hit.side, hit.time_ns);
  if (gap.has_value()) DrawTooltip(frame.canvas, frame.layout.window, *gap, {input.x, input.y});
}

}  // namespace

CompareScreen::CompareScreen(DesktopState& desktop)
    : desktop_(desktop),
      generation_(desktop.session.input_number()),
      runs_number_(desktop.session.runs_number()),
      model_number_(desktop.session.model_number()),
      options_(desktop.session.model().options),
      state_(StartOf(desktop.session.model())),
      dock_(desktop) {
  state_.wanted = desktop.session.wanted();
}

// Takes over a model that was built anew, here or elsewhere. If the runs are the same, viewport,
// selection and alignment stay; others are shown whole.
void CompareScreen::FollowModel() {
  state_.wanted = desktop_.session.wanted();
  if (model_number_ == desktop_.session.model_number()) return;
  const bool same_runs = runs_number_ == desktop_.session.runs_number();
  const bool same_spans = generation_ == desktop_.session.input_number();
  state_ = CarryOver(options_, same_runs, desktop_.session.model(), std::move(state_));
  if (!same_runs) state_.viewport = Fitted(model().extent);
  const CompareOptions& now = model().options;
  if (!same_runs || now.measured_step != options_.measured_step ||
      now.predicted_step != options_.predicted_step || now.alignment != options_.alignment) {
    state_.play = {};
  }
  if (!same_spans) FindAgain();
  options_ = desktop_.session.model().options;
  generation_ = desktop_.session.input_number();
  runs_number_ = desktop_.session.runs_number();
  model_number_ = desktop_.session.model_number();
}

// Spans were read again, so indices into the old list mean nothing. The selection is found by its
// span, the search is repeated.
void CompareScreen::FindAgain() {
  state_.worst.reset();
  if (state_.selected.has_value() && selected_.has_value()) {
    state_.selected = Locate(model(), state_.selected->side, *selected_);
  } else {
    state_.selected.reset();
  }
  if (!state_.found.empty()) state_.found = FindSpans(model(), desktop_.dock.search);
  if (state_.found_at >= state_.found.size()) state_.found_at = 0;
}

// Shows the span, or the rank and step, that another view asks for.
void CompareScreen::GoToPlace() {
  if (const auto span = std::exchange(desktop_.dock.go_to, std::nullopt); span.has_value()) {
    state_.found = FindSpans(model(), desktop_.dock.search);
    const auto at = std::find(state_.found.begin(), state_.found.end(), *span);
    if (at != state_.found.end()) {
      GoToFound(model(), layout_, static_cast<std::size_t>(at - state_.found.begin()), state_);
    }
  }
  if (!desktop_.navigation.place().has_value()) return;
  const RankPlace place = *desktop_.navigation.place();
  (model().Shown() == Side::kMeasured ? state_.wanted.measured_step
                                      : state_.wanted.predicted_step) = place.step;
  if (state_.wanted != desktop_.session.wanted()) desktop_.session.Rebuild(state_.wanted);
  if (desktop_.session.IsBuilding()) return;  // goes there once it can be seen
  desktop_.navigation.Arrive();
  FollowModel();
  state_.viewport = Fitted(model().extent);
  const std::optional<std::size_t> lane = LaneOfRank(model(), place.rank);
  if (!lane.has_value()) return;
  state_.memory_lane = *lane;
  ScrollToLane(layout_, *lane, state_);
}

// Arranges the lanes if the model or their order changed.
void CompareScreen::RefreshList() {
  const std::pair of(model_number_, state_.order);
  if (list_of_ == of) return;
  list_of_ = of;
  list_ = std::make_shared<const LaneList>(ArrangeLanes(model(), state_.order));
  ++list_number_;
}

// Draws lanes, drift and memory into textures, only if something that they depend on has changed.
// Drawing every span in every frame would not keep up with long runs.
void CompareScreen::RefreshPictures(const ScreenFrame& frame) {
  const std::pair memory_of(model_number_, state_.memory_lane);
  if (memory_of_ != memory_of) {
    const bool known = state_.memory_lane < model().lanes.size();
    memory_ =
        known ? MakeMemoryPanel(model(), model().lanes[state_.memory_lane].rank) : MemoryPanel{};
    memory_of_ = memory_of;
  }
  const Theme& theme = frame.canvas.theme;
  const std::tuple overview_of(list_number_, layout_.overview, theme.ground);
  if (overview_of_ != overview_of) {
    overview_of_ = overview_of;
    overview_shown_ = frame.images.Keep("compare.overview", MakeOverview(model(), layout_, theme));
  }
  const PictureKey key{state_.viewport, layout_.window,
                       list_number_,    layout_.scale,
                       layout_.scroll,  state_.memory_lane,
                       state_.counters, theme.ground,
                       model_number_,   desktop_.selection.op_filter()};
  if (key_ == key) return;
  key_ = key;
  lanes_ = MakeLanePictures(model(), layout_, state_.viewport, theme, Filter());
  drift_ = MakeDriftPicture(model(), layout_, state_.viewport, theme);
  memory_picture_ = MakeMemoryPicture(model(), layout_, state_.viewport, memory_, theme);
  lanes_shown_ = frame.images.Keep("compare.lanes", lanes_.image);
  drift_shown_ = frame.images.Keep("compare.drift", drift_.image);
  memory_shown_ = frame.images.Keep("compare.memory", memory_picture_.image);
}

// The layout depends on the scroll and the input changes the scroll, so parts are placed before and
// after the input. Pictures come last, from the final viewport.
void CompareScreen::Draw(const ScreenFrame& screen) {
  FollowModel();
  InputFrame input = dock_.Handle(screen.input, screen.box, screen.canvas.scale);
  const auto place = [&] {
    RefreshList();
    Box lanes = screen.box;
    lanes.y1 = dock_.PlaceIn(screen.box, screen.canvas.scale).y0;
    layout_ = MakeLayout(model(), lanes, screen.canvas.scale, state_.scroll, state_.memory_lane,
                         state_.counters, list_);
    state_.scroll = layout_.scroll;
  };
  place();  // how high a lane is
  GoToPlace();
  place();
  const ViewState before{
      .selected = state_.selected, .measure = state_.measure, .searching = state_.searching};
  const auto is_jump = [](char32_t typed) { return typed == U'j' || typed == U'J'; };
  if (std::erase_if(input.typed, is_jump) > 0) rank_field_.wanted = true;
  const Playback played = state_.play;
  HandlePlayKeys(model(), input, state_.play);
  Advance(model(), input.elapsed_s, state_.play);
  if (state_.play.on && !played.on) desktop_.dock.Suggest(DockTab::kPlay);
  Update(model(), layout_, input, state_);
  if (state_.play != played) FollowMoment(state_.play, state_.viewport);
  SuggestTab(before);
  // Keys may have asked for another step, rows or alignment.
  if (state_.wanted != desktop_.session.wanted()) {
    desktop_.session.Rebuild(state_.wanted);
    FollowModel();
  }
  place();
  DrawLaneControls(screen, model(), layout_, rank_field_, state_);
  place();
  // A lane that another one stood for is shown before it is scrolled to.
  if (const auto lane = state_.reveal; lane.has_value()) {
    RevealLane(*list_, state_);
    state_.reveal.reset();
    place();
    ScrollToLane(layout_, *lane, state_);
    place();
  }
  state_.gutter_lane.reset();
  if (input.x < layout_.plot_x0) state_.gutter_lane = LaneAt(layout_, input.x, input.y);
  desktop_.link = LinkOf(model(), state_);
  // The loader reads the spans of what is visible.
  desktop_.navigation.LookAt(state_.viewport);
  selected_.reset();
  if (state_.selected.has_value()) selected_ = model().SpanOf(*state_.selected);
  moving_ = input.left || input.right || input.nearer || input.farther || input.down;

  RefreshPictures(screen);
  const Frame frame{model(), layout_, state_, screen.canvas, Filter()};
  screen.canvas.PushClip(layout_.window);
  DrawOverview(frame, overview_shown_);
  DrawGrid(frame);
  DrawLanes(frame, lanes_, lanes_shown_);
  DrawBubbles(frame);
  DrawPlayhead(frame, state_.play);
  RefreshPath();
  if (state_.path.has_value()) DrawPath(frame, path_);
  DrawDrift(frame, drift_, drift_shown_);
  DrawMemory(frame, memory_, memory_picture_, memory_shown_);
  DrawAxis(frame);
  DrawStepEnds(frame);
  DrawLegend(frame);
  DrawLaneDrop(frame, input.y);
  DrawMouse(frame, input);
  screen.canvas.PopClip();
  DrawDock(screen, dock_.PlaceIn(screen.box, screen.canvas.scale));
}

// A new selection, measured range or search shows its tab.
void CompareScreen::SuggestTab(const ViewState& before) {
  DockState& dock = desktop_.dock;
  const bool selected = state_.selected.has_value() && state_.selected != before.selected;
  const bool measured = state_.measure.has_value() && !before.measure.has_value();
  const bool found =
      state_.found_at < state_.found.size() && state_.selected == state_.found[state_.found_at];
  const bool listed = found && dock.open && dock.tab == DockTab::kSearch;
  if (selected && !listed) dock.Suggest(DockTab::kSelection);
  if (measured) dock.Suggest(DockTab::kRange);
  if (state_.searching && !before.searching) dock.Open(DockTab::kSearch);
}

// The panel below the lanes. Other views show the same selection and range.
void CompareScreen::DrawDock(const ScreenFrame& screen, const Box& box) {
  DockState& dock = desktop_.dock;
  dock.model_number = model_number_;
  dock.selected = state_.selected;
  dock.selected_lane = state_.selected_lane;
  dock.measure = state_.measure;
  Take(dock_.Draw(screen, box,
                  {.model = model(),
                   .model_number = model_number_,
                   .selected = state_.selected,
                   .selected_lane = state_.selected_lane,
                   .measure = state_.measure,
                   .dragging = state_.drag == Drag::kMeasure,
                   .found = state_.found,
                   .found_at = state_.found_at,
                   .searching = state_.searching,
                   .play = &state_.play,
                   .memory_lane = state_.memory_lane}));
}

void CompareScreen::Take(const DockActions& actions) {
  if (actions.search_started) state_.searching = true;
  if (actions.search_ended) state_.searching = false;
  if (actions.search_changed) {
    state_.found = FindSpans(model(), desktop_.dock.search);
    GoToFound(model(), layout_, 0, state_);
  }
  if (actions.search_next) GoToFound(model(), layout_, state_.found_at + 1, state_);
  if (actions.go_to.has_value()) GoToFound(model(), layout_, *actions.go_to, state_);
}

// Null if no filter is set: all ops are drawn in full colour.
const OpFilter* CompareScreen::Filter() const {
  return desktop_.selection.op_filter().has_value() ? &*desktop_.selection.op_filter() : nullptr;
}

// The critical path takes O(spans), so it is kept until the model or the side changes.
void CompareScreen::RefreshPath() {
  if (!state_.path.has_value()) return path_of_.reset();
  const std::pair of(model_number_, *state_.path);
  if (path_of_ == of) return;
  path_of_ = of;
  path_ = CriticalPathOf(model(), *state_.path);
}

// Work in progress first, then what filters the view, then what it shows.
std::vector<std::string> CompareScreen::Chips() const {
  std::vector<std::string> chips;
  if (desktop_.stores.reading_spans) chips.emplace_back("reading spans");
  if (desktop_.session.IsBuilding())
    chips.emplace_back(ChangeText(model().options, desktop_.session.wanted()));
  if (path_of_.has_value()) chips.push_back(DescribePath(path_, model().Names()));
  if (const OpFilter* const filter = Filter()) chips.push_back("filter: " + filter->name);
  const SideModel& shown = model().Of(model().Shown());
  if (shown.IsPresent()) chips.push_back(StepText(shown));
  chips.emplace_back(Name(model().options.alignment));
  return chips;
}

std::vector<HelpLine> CompareScreen::Help() const {
  std::vector<HelpLine> lines{
      {"wheel", "zoom at the mouse"},
      {"ctrl + wheel", "scroll the ranks"},
      {"drag", "move in time, and up and down"},
      {"double click", "zoom to a span"},
      {"click", "select a span; choose whose memory is shown"},
      {"shift + drag", "measure a stretch of time"},
      {"W S A D", "zoom in and out, move"},
      {"F", "fit the whole step"},
      {"M", "jump between a span and its counterpart in the other run"},
      {"]  [", "next and previous worst error"},
      {".  ,", "next and previous step"},
      {"Z  K  X", "align at step start, by wall clock, every op at its counterpart (warp)"},
      {"B  E", "align at the selected op's micro-batch, at the op itself"},
      {"G", "the next of these alignments"},
      {"space  left  right", "play the step; to the op before, to the next"},
      {"C", "critical path: of the measured run, of the other, none"},
      {"/  N", "search spans by name; the next one found"},
      {"Q", "one row for each queue"},
      {"R  L", "group ranks that do the same; slowest ranks first"},
      {"V", "pin the rank under the mouse; a name can be dragged"},
      {"J", "go to a rank by its number"},
      {"P", "counters of the GPUs: shown, hidden"},
      {"U", "back to the view before"},
      {"Esc", "clear selection, measure, search and path"},
      {"thin strip", "the forecast or baseline; the tall one below it is measured"},
      {"line under them",
       "red: slower than the forecast or baseline; blue: faster; grey: no counterpart"},
  };
  const std::vector<HelpLine> dock = Dock::Help();
  lines.insert(lines.end(), dock.begin(), dock.end());
  return lines;
}

}  // namespace foretrain::ui
