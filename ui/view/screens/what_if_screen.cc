#include "ui/view/screens/what_if_screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/io/file_system.h"
#include "base/parallel.h"
#include "base/units.h"
#include "sim/cost/profile/derive_profile.h"
#include "ui/view/lanes/segments.h"
#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

// In pixels at scale 1.
constexpr float kControls = 330.0F;
constexpr float kNumbers = 88.0F;
constexpr float kMessage = 30.0F;
constexpr float kMaxChoice = 0.55F;  // of the width, beside the message

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
  // Another picture has other ops: the moment stays, if the step is as long.
  state_.play.playing = false;
  ++picture_number_;
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
  // Beside the message, or below it where that would leave too little of it.
  const float wanted = WhatIfWorkbench::WidthOfChoice(canvas);
  Box choice{message.x0 + canvas.Px(10), message.y0, message.x1 - canvas.Px(10), message.y1};
  if (wanted <= kMaxChoice * message.Width()) {
    message.x1 = choice.x1 - wanted;
  } else {
    const float lines = wanted <= choice.Width() ? 1.0F : 2.0F;
    choice.y0 = message.y1;
    choice.y1 = timeline.y0 = std::min(rest.y1, message.y1 + lines * canvas.Px(kMessage));
  }
  workbench_.DrawChoice(frame, choice);
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
  if (workbench_.panel() >= WhatIfPanel::kPlay) timeline.y1 = DrawPanelBelow(frame, timeline);
  DrawTimeline(frame, timeline);
}

// Frames go on while an answer is awaited.
bool WhatIfScreen::IsMoving() const {
  return moving_ || state_.play.playing || what_if_.IsBusy() || starter_.IsBusy() ||
         workbench_.IsBusy();
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
      {"space  left  right", "play the step; to the op before, to the next"},
      {"Z  Y", "undo and redo; history lists all changes"},
      {"mark at a control", "it is not as it was pinned"},
      {"amber dashes", "end of the pinned plan's step; memory that a device has"},
  };
}

}  // namespace foretrain::ui
