#include "ui/view/screens/what_if_screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/io/file_system.h"
#include "base/parallel.h"
#include "base/units.h"
#include "sim/cost/profile/derive_profile.h"
#include "ui/view/lanes/segments.h"
#include "ui/view_model/planning/stage_layout.h"
#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

// In pixels at scale 1.
constexpr float kControls = 330.0F;
constexpr float kNumbers = 88.0F;
constexpr float kMessage = 30.0F;
constexpr float kLegend = 30.0F;  // of a timeline

// The rates of a cluster that nobody measured; of a CPU those that are known of this one.
MachineRates RatesOf(const ClusterSpec& cluster, const std::optional<LocalMachine>& local) {
  if (cluster.is_cpu && local) return {cluster, local->rates.profile};
  return {cluster, DeriveProfile(cluster)};
}

}  // namespace

// Starts from the pinned plan, else from the run that is open, else from a plan that is searched on
// another thread.
WhatIfScreen::WhatIfScreen(DesktopState& desktop)
    : desktop_(desktop),
      workbench_(clock_),
      what_if_(clock_),
      starter_([](const PlanRequest& request, const auto& outdated) {
        return StartingScenario(request, HardwareThreads(), outdated);
      }) {
  if (!desktop_.selection.pinned() && !StartFromRun()) FindStart();
}

// Returns false if no run is open whose plan is known.
bool WhatIfScreen::StartFromRun() {
  const RunSetting* const run = desktop_.session.setting();
  if (run == nullptr) return false;
  scenario_ = Scenario{run->model, {run->cluster, run->profile}, run->cluster, run->plan};
  pin_next_ = true;
  memory_pp_ = -1;
  problem_.clear();
  Ask();
  return true;
}

// Takes over a plan that another view has pinned.
void WhatIfScreen::FollowPin() {
  if (!desktop_.selection.pinned() || pinned_number_ == desktop_.selection.pin_number()) return;
  pinned_number_ = desktop_.selection.pin_number();
  const PinnedPlan& pin = *desktop_.selection.pinned();
  scenario_ = Scenario{pin.model,
                       pin.machine ? *pin.machine : RatesOf(pin.cluster, desktop_.plan_start.local),
                       pin.cluster, pin.plan};
  pin_next_ = true;
  memory_pp_ = -1;
  problem_.clear();
  Ask();
}

// Resolves the same setup that the plan view starts with.
void WhatIfScreen::FindStart() {
  const auto catalogue = BuiltInCatalogue();
  if (!catalogue) {
    problem_ = catalogue.error().message;
    return;
  }
  PosixFileSystem files;
  auto request = Resolve(desktop_.plan_start.setup, *catalogue, desktop_.plan_start.local, files);
  if (!request) {
    problem_ = request.error().message;
    return;
  }
  starter_.Ask(*std::move(request));
}

void WhatIfScreen::Ask() {
  workbench_.history().Add(*scenario_);
  what_if_.Ask({*scenario_, memory_pp_});
}

// Shows a scenario of the history; null changes nothing.
void WhatIfScreen::GoTo(const Scenario* scenario) {
  if (scenario == nullptr) return;
  scenario_ = *scenario;
  Ask();
}

// Pins the plan for all views. Its own number is noted, so that FollowPin does not take it over
// again.
void WhatIfScreen::Pin() {
  desktop_.selection.Pin({scenario_->model.name + " " + Describe(scenario_->plan), scenario_->model,
                          scenario_->cluster, scenario_->plan, scenario_->machine});
  pinned_number_ = desktop_.selection.pin_number();
}

// The longer of the shown and the pinned step: the view has room for both ends.
double WhatIfScreen::LongestNs() const {
  double step_s = what_if_.shown() == nullptr ? 0 : what_if_.shown()->stats.step_s;
  if (pinned_step_ != nullptr) step_s = std::max(step_s, pinned_step_->stats.step_s);
  return step_s * kNsPerSecond;
}

// Takes over a new picture. If the whole step was in view, it stays so, and the view is at least as
// long as the pinned step. Otherwise viewport and scroll stay, so that a detail can be watched
// while options change.
void WhatIfScreen::ShowPicture(std::shared_ptr<const StepPicture> picture) {
  if (picture == nullptr || picture == picture_) return;
  // "Whole" has a small tolerance, because zooming rounds.
  const bool first = picture_ == nullptr;
  const bool whole = first || state_.viewport.LengthNs() >= 0.99 * picture_->model.extent.end_ns;
  if (first) {
    state_ = StartOf(picture->model);
  } else {
    state_ = CarryOver(picture_->model.options, false, picture->model, std::move(state_));
  }
  state_.wanted = picture->model.options;
  picture_ = std::move(picture);
  // Keeps the memory panel on the stage whose memory was computed.
  const int pp = what_if_.shown()->memory_pp;
  const auto& stages = picture_->stages;
  const auto lane = std::find(stages.begin(), stages.end(), pp);
  if (lane != stages.end()) state_.memory_lane = static_cast<std::size_t>(lane - stages.begin());
  if (whole) state_.viewport = Fitted({0, std::max(LongestNs(), picture_->model.extent.end_ns)});
}

// A plan that the user pinned meanwhile wins over the starting plan.
void WhatIfScreen::TakeStart() {
  auto start = starter_.Take();
  if (!start) return;
  if (start->answer && !scenario_) {
    scenario_ = *std::move(start->answer);
    pin_next_ = true;
    Ask();
  } else if (!start->answer) {
    problem_ = start->answer.error().message;
  }
}

// Takes the latest answer. The frame that asked waits up to patience_, once: most answers arrive
// within it, and the picture changes without a flicker.
void WhatIfScreen::TakeAnswer() {
  if (std::exchange(waited_for_, what_if_.asked()) != what_if_.asked()) what_if_.Await(patience_);
  if (!what_if_.Poll()) return;
  const auto& shown = what_if_.shown();
  if (shown == nullptr) return;
  if (pin_next_ && what_if_.problem().empty()) {
    pinned_step_ = shown;
    pinned_ = shown->request.scenario;
    pin_next_ = false;
  }
  by_ops_ = what_if_.simulated() != nullptr;
  ShowPicture(by_ops_ ? what_if_.simulated()->picture : shown->picture);
}

// Empty if the lane is not in this picture, which may have fewer stages.
MemoryPanel WhatIfScreen::PanelOfLane() const {
  const std::vector<Lane>& lanes = picture_->model.lanes;
  const bool known = state_.memory_lane < lanes.size();
  return known ? MakeMemoryPanel(picture_->model, lanes[state_.memory_lane].rank) : MemoryPanel{};
}

// Pictures are drawn again only if picture, viewport or layout changed; the memory panel only for
// another picture or lane.
void WhatIfScreen::RefreshPictures(const ScreenFrame& frame) {
  const Theme& theme = frame.canvas.theme;
  const PictureKey key{state_.viewport,    layout_.window, layout_.scale, layout_.scroll,
                       state_.memory_lane, theme.ground,   picture_.get()};
  if (key_ == key) return;
  const bool other = !key_ || key_->picture != key.picture || key_->memory_lane != key.memory_lane;
  if (other) memory_ = PanelOfLane();
  key_ = key;
  lanes_ = MakeLanePictures(picture_->model, layout_, state_.viewport, theme);
  memory_picture_ = MakeMemoryPicture(picture_->model, layout_, state_.viewport, memory_, theme);
  lanes_shown_ = frame.images.Keep("what-if.lanes", lanes_.image);
  memory_shown_ = frame.images.Keep("what-if.memory", memory_picture_.image);
}

// The timeline of stages. A click on another lane asks for its memory, unless all lanes have theirs
// from the simulation.
void WhatIfScreen::DrawTimeline(const ScreenFrame& screen, const Box& box) {
  const CompareModel& model = picture_->model;
  const auto place = [&] {
    layout_ = MakeStageLayout(model, box, screen.canvas.scale, state_.scroll, true);
    state_.scroll = layout_.scroll;
  };
  place();
  const std::size_t lane = state_.memory_lane;
  Update(model, layout_, screen.input, state_);
  state_.wanted = model.options;  // rows and alignment are one way here
  if (state_.memory_lane != lane && state_.memory_lane < picture_->stages.size()) {
    memory_pp_ = picture_->stages[state_.memory_lane];
    if (!by_ops_) Ask();
  }
  place();
  const InputFrame& input = screen.input;
  moving_ = input.left || input.right || input.nearer || input.farther || input.down;
  RefreshPictures(screen);
  const Frame frame{model, layout_, state_, screen.canvas};
  screen.canvas.PushClip(layout_.window);
  DrawGrid(frame);
  DrawLanes(frame, lanes_, lanes_shown_);
  if (!by_ops_ && what_if_.shown()->passes->HasPasses()) {
    DrawPassOps(frame, *what_if_.shown()->passes);
  }
  DrawMemory(frame, memory_, memory_picture_, memory_shown_);
  DrawAxis(frame);
  DrawStepEnds(frame);
  if (pinned_step_ != nullptr) DrawPinnedEnd(frame, pinned_step_->stats.step_s);
  DrawLegend(frame);
  DrawCursor(frame, input.x, input.y);
  if (state_.hovered && state_.hovered->span) {
    const int rank = model.lanes[state_.hovered->lane].rank;
    DrawTooltip(screen.canvas, layout_.window, HoverOfSpan(model, rank, *state_.hovered->span),
                {input.x, input.y});
  }
  screen.canvas.PopClip();
}

// The pinned plan's lanes at the same zoom. Its legend is the other timeline's, so it is cut off.
void WhatIfScreen::DrawPinnedTimeline(const ScreenFrame& screen, const Box& box) {
  if (pinned_step_ == nullptr || pinned_step_->picture == nullptr) {
    return DrawEmpty(screen.canvas, box, "The pinned plan has no timeline by passes.");
  }
  const CompareModel& model = pinned_step_->picture->model;
  const Theme& theme = screen.canvas.theme;
  Box whole = box;
  whole.y1 += screen.canvas.Px(kLegend);
  const Layout layout = MakeStageLayout(model, whole, screen.canvas.scale, 0.0F, false);
  ViewState state{.viewport = state_.viewport};
  state.memory_lane = model.lanes.size();
  const PictureKey key{state.viewport,
                       layout.window,
                       layout.scale,
                       0.0F,
                       0,
                       theme.ground,
                       pinned_step_->picture.get()};
  if (pinned_key_ != key) {
    pinned_key_ = key;
    pinned_lanes_ = MakeLanePictures(model, layout, state.viewport, theme);
    pinned_shown_ = screen.images.Keep("what-if.pinned", pinned_lanes_.image);
  }
  const Frame frame{model, layout, state, screen.canvas};
  screen.canvas.PushClip(box);
  DrawGrid(frame);
  DrawLanes(frame, pinned_lanes_, pinned_shown_);
  DrawAxis(frame);
  screen.canvas.Fill({box.x0, box.y1 - 1.0F, box.x1, box.y1}, theme.line);
  screen.canvas.PopClip();
}

// The controls, and what they ask for.
ControlUse WhatIfScreen::DrawControlsIn(const ScreenFrame& frame, const Box& box) {
  ScenarioHistory& history = workbench_.history();
  ControlUse use = DrawControls(frame, box,
                                {.pinned = pinned_ ? &*pinned_ : nullptr,
                                 .has_run = desktop_.session.setting() != nullptr,
                                 .can_undo = history.CanUndo(),
                                 .can_redo = history.CanRedo()},
                                *scenario_, list_text_);
  for (const char32_t typed : frame.input.typed) {
    use.undo = use.undo || typed == U'z' || typed == U'Z';
    use.redo = use.redo || typed == U'y' || typed == U'Y';
  }
  if (use.undo) GoTo(history.Undo());
  if (use.redo) GoTo(history.Redo());
  return use;
}

// The rule that the controls break, else how the picture came about.
void WhatIfScreen::DrawMessage(const ScreenFrame& frame, const Box& box) const {
  Canvas& canvas = frame.canvas;
  const Box line{box.x0 + canvas.Px(14), box.y0, box.x1 - canvas.Px(14), box.y1};
  std::string text = what_if_.problem();
  const bool broken = !text.empty();
  if (broken) {
    text = "Not possible: " + text + ". Shown is the last plan that was.";
  } else if (const auto& step = what_if_.shown(); step != nullptr) {
    if (what_if_.simulated() != nullptr) {
      const double simulated_s = what_if_.simulated()->step_s;
      text = fmt::format("timeline simulated op by op, {}, {} against passes",
                         FormatSeconds(simulated_s),
                         SignedPercent(simulated_s / step->stats.step_s - 1));
    } else {
      text = "timeline by passes" + (step->note.empty() ? std::string() : "; " + step->note);
    }
    text += ": " + Describe(step->request.scenario.plan);
  }
  canvas.PushClip(box);
  canvas.TextIn(canvas.fonts.small, line, Align::kLeft,
                broken ? canvas.theme.amber : canvas.theme.muted,
                Shortened(canvas, canvas.fonts.small, text, line.Width()));
  canvas.PopClip();
}

// The order of a frame: pins, the starting plan, controls, answer, drawing. Controls ask before the
// answer is taken, so that a fast answer shows in the same frame.
void WhatIfScreen::Draw(const ScreenFrame& frame) {
  FollowPin();
  TakeStart();
  Canvas& canvas = frame.canvas;
  if (!scenario_) {
    canvas.TextIn(canvas.fonts.text, frame.box, Align::kCentre, canvas.theme.muted,
                  problem_.empty() ? "Finding a plan to start from..." : problem_);
    return;
  }
  Box controls = frame.box, rest = frame.box;
  controls.x1 = rest.x0 =
      frame.box.x0 + std::min(canvas.Px(kControls), std::floor(0.45F * frame.box.Width()));
  canvas.Fill(controls, canvas.theme.panel);
  const ControlUse use = DrawControlsIn(frame, controls);
  if (use.from_run) StartFromRun();
  if (use.reset && pinned_) scenario_ = pinned_;
  if (use.pin) {
    Pin();
    pin_next_ = true;
  }
  if (use.changed || use.reset || use.pin) Ask();
  TakeAnswer();
  // The run view takes over the pinned plan.
  if (use.run) {
    Pin();
    desktop_.navigation.GoTo("run");
  }
  Box numbers = rest, message = rest, timeline = rest;
  numbers.y1 = message.y0 = std::min(rest.y1, rest.y0 + canvas.Px(kNumbers));
  message.y1 = timeline.y0 = std::min(rest.y1, message.y0 + canvas.Px(kMessage));
  if (what_if_.shown() != nullptr) {
    DrawStepNumbers(frame, numbers,
                    NumbersOfStep(what_if_.shown()->stats,
                                  pinned_step_ == nullptr ? nullptr : &pinned_step_->stats));
  }
  const Box choice{message.x0, message.y0, message.x1 - canvas.Px(10), message.y1};
  message.x1 = workbench_.DrawChoice(frame, choice);
  DrawMessage(frame, message);
  if (!workbench_.ShowsTimeline()) {
    return GoTo(workbench_.Draw(frame, timeline, *scenario_, pinned_ ? &*pinned_ : nullptr));
  }
  if (picture_ == nullptr) return;
  if (workbench_.panel() == WhatIfPanel::kBoth) {
    Box above = timeline;
    above.y1 = timeline.y0 = std::round(timeline.y0 + 0.42F * timeline.Height());
    DrawPinnedTimeline(frame, above);
  }
  DrawTimeline(frame, timeline);
}

// Frames go on while an answer is awaited.
bool WhatIfScreen::IsMoving() const {
  return moving_ || what_if_.IsBusy() || starter_.IsBusy() || workbench_.IsBusy();
}

std::vector<std::string> WhatIfScreen::Chips() const {
  if (!scenario_) return {};
  return {scenario_->model.name + " on " + scenario_->cluster.name};
}

std::vector<HelpLine> WhatIfScreen::Help() const {
  return {
      {"wheel", "zoom at the mouse; ctrl + wheel scrolls the stages"},
      {"drag", "move in time, and up and down"},
      {"click", "select a span; choose whose memory is shown"},
      {"shift + drag", "measure a stretch of time"},
      {"ctrl + click", "type the value of a slider"},
      {"F", "fit the whole step"},
      {"Z  Y", "undo and redo; history lists all changes"},
      {"mark at a control", "it is not as it was pinned"},
      {"amber dashes", "end of the pinned plan's step; memory that a device has"},
  };
}

}  // namespace foretrain::ui
