#include "ui/view/screens/plan_screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/io/file_system.h"
#include "base/parallel.h"
#include "base/units.h"
#include "ui/view/lanes/segments.h"

namespace foretrain::ui {
namespace {

// In pixels at scale 1.
constexpr float kSetup = 306.0F;
constexpr float kSummary = 30.0F;
constexpr float kMinTable = 150.0F;
constexpr float kNarrow = 520.0F;  // narrower: no details
constexpr float kMinUpper = 220.0F;

// One line: what was searched, how many plans, and the bound that no plan can beat. `still` leaves
// out the time, which would differ from picture to picture.
void DrawSummary(const ScreenFrame& frame, const Box& box, const FoundPlans& found, bool still) {
  Canvas& canvas = frame.canvas;
  const PlanRequest& request = *found.request;
  const std::string what = fmt::format(
      "{} on {}, {} samples of {} tokens a step", request.model.name, request.cluster.name,
      request.space.base.global_batch, request.space.base.sequence);
  const float pad = canvas.Px(14);
  const float width = canvas.WidthOf(canvas.fonts.bold, what);
  canvas.PushClip(box);
  canvas.TextIn(canvas.fonts.bold, {box.x0 + pad, box.y0, box.x1, box.y1}, Align::kLeft,
                canvas.theme.text, what);
  const Box text_box{box.x0 + pad + width + canvas.Px(18), box.y0, box.x1 - pad, box.y1};
  const std::string how =
      fmt::format("{} plans compared, {} dropped{}; none takes less than {}; rates {}",
                  CountText(found.evaluated), CountText(found.pruned),
                  still ? "" : ", in " + FormatSeconds(found.seconds), FormatSeconds(found.bound_s),
                  request.origin);
  canvas.TextIn(canvas.fonts.small, text_box, Align::kLeft, canvas.theme.muted,
                Shortened(canvas, canvas.fonts.small, how, text_box.Width()));
  canvas.PopClip();
}

void DrawEmpty(const ScreenFrame& frame, const Box& box, std::string_view text) {
  frame.canvas.TextIn(frame.canvas.fonts.text, box, Align::kCentre, frame.canvas.theme.faint, text);
}

}  // namespace

// Starts from the setup of the command line, without one from the run that is open.
PlanScreen::PlanScreen(DesktopState& desktop)
    : desktop_(desktop),
      catalogue_(BuiltInCatalogue()),
      explainer_(clock_),
      search_(HardwareThreads(), clock_) {
  ShowSetup(desktop.plan_start.setup);
  if (desktop.plan_start.setup == PlanSetup{}) TakeRun();
}

void PlanScreen::ShowSetup(PlanSetup setup) {
  view_.setup = std::move(setup);
  const auto text = [](std::int64_t number) {
    return number > 0 ? std::to_string(number) : std::string();
  };
  view_.sequence_text = text(view_.setup.sequence);
  view_.batch_text = text(view_.setup.global_batch);
}

// Does nothing if no run is open whose plan is known, or if it ran on a CPU whose rates are not.
void PlanScreen::TakeRun() {
  const RunSetting* const run = desktop_.session.setting();
  if (run == nullptr || !catalogue_) return;
  if (run->cluster.is_cpu && !desktop_.plan_start.local) return;
  view_.config_path.clear();
  ShowSetup(SetupOf(*run, *catalogue_, view_.setup));
}

// Resolves the setup and starts a search on other threads. A setup that cannot be resolved is a
// sentence at the form.
void PlanScreen::Start() {
  if (!catalogue_) {
    view_.problem = catalogue_.error().message;
    return;
  }
  PosixFileSystem files;
  PlanSetup setup = view_.setup;
  if (!view_.config_path.empty()) setup.model = view_.config_path;
  auto request = Resolve(setup, *catalogue_, desktop_.plan_start.local, files);
  if (!request) {
    view_.problem = request.error().message;
    return;
  }
  view_.problem.clear();
  search_.Start(*std::move(request));
}

// Rebuilds plot and table from the plans that were found last, and selects the best one.
void PlanScreen::Refresh() {
  view_.selected.reset();
  view_.hovered.reset();
  view_.rows.clear();
  if (search_.found() == nullptr) return;
  const FoundPlans& found = *search_.found();
  KeepFront(found, view_.fronts);
  view_.scatter = ScatterOf(
      found, MeasuredPlansOf(desktop_.session.runs(), desktop_.session.run_models()), view_.fronts);
  generation_ = desktop_.session.input_number();
  view_.rows = Sorted(found, view_.order);
  if (!found.plans.empty()) view_.selected = 0;
}

// P pins the selected plan or unpins it.
void PlanScreen::OnKeys(const InputFrame& input) {
  for (const char32_t typed : input.typed) {
    if ((typed == U'p' || typed == U'P') && view_.selected && search_.found() != nullptr) {
      KeepOrDrop(*search_.found(), *view_.selected, view_);
    }
  }
}

// Plot and details above, the table below. In a low window the table alone stays; in a narrow one
// the details go.
void PlanScreen::DrawFound(const ScreenFrame& frame, const Box& box) {
  const FoundPlans& found = *search_.found();
  // Runs may have been recorded since the search: their marks in the plot follow.
  if (generation_ != desktop_.session.input_number()) {
    view_.scatter =
        ScatterOf(found, MeasuredPlansOf(desktop_.session.runs(), desktop_.session.run_models()),
                  view_.fronts);
    generation_ = desktop_.session.input_number();
  }
  Canvas& canvas = frame.canvas;
  Box summary = box, upper = box, table = box;
  summary.y1 = upper.y0 = box.y0 + canvas.Px(kSummary);
  const float room = box.y1 - upper.y0;
  // The table gets the height of its rows, at most 42 % of the room.
  const float max = canvas.Px(64.0F + 27.0F * static_cast<float>(found.plans.size()));
  const float lower = std::clamp(max, canvas.Px(kMinTable), std::floor(0.42F * room));
  const bool both = room >= canvas.Px(kMinTable + kMinUpper);
  upper.y1 = both ? box.y1 - lower : upper.y0;
  table.y0 = upper.y1;
  DrawSummary(frame, summary, found, desktop_.still);
  view_.hovered.reset();
  if (both) {
    Box scatter = upper, details = upper;
    const bool narrow = upper.Width() < canvas.Px(kNarrow);
    scatter.x1 = narrow ? upper.x1
                        : upper.x0 + std::floor((upper.Width() < canvas.Px(760) ? 0.45F : 0.56F) *
                                                upper.Width());
    details.x0 = scatter.x1;
    DrawScatter(frame, scatter, found, view_);
    if (!narrow) {
      canvas.Fill({details.x0, details.y0, details.x0 + 1.0F, details.y1}, canvas.theme.line);
      DrawPlanDetails(frame, details, found, desktop_, view_);
    }
    canvas.Fill({table.x0, table.y0, table.x1, table.y0 + 1.0F}, canvas.theme.line);
  }
  DrawPlanTable(frame, table, found, view_);
}

// Forecasts the difference of the two pinned plans that are compared, once they are shown.
void PlanScreen::Explain() {
  view_.difference = nullptr;
  const auto count = static_cast<int>(view_.kept.size());
  if (view_.tab != PlanTab::kKept || count < 2 || view_.first == view_.second) return;
  if (view_.first < 0 || view_.second < 0 || view_.first >= count || view_.second >= count) return;
  const auto scenario = [this](int at) {
    const KeptPlan& kept = view_.kept[static_cast<std::size_t>(at)];
    return Scenario{kept.request->model, kept.request->machine, kept.request->cluster,
                    kept.plan.ranked.plan};
  };
  explainer_.Ask(scenario(view_.first), scenario(view_.second));
  if (explainer_.difference() && !explainer_.IsBusy()) view_.difference = &*explainer_.difference();
}

// Takes results before input, so that a click goes to what is on screen. Buttons only set wishes,
// which are carried out last.
void PlanScreen::Draw(const ScreenFrame& frame) {
  refreshed_ = search_.Poll();
  if (refreshed_) Refresh();
  if (std::exchange(desktop_.plan_start.search, false)) Start();
  OnKeys(frame.input);
  Explain();
  view_.wants_search = view_.wants_cancel = view_.wants_run = false;
  Box setup = frame.box, found = frame.box;
  setup.x1 = found.x0 =
      frame.box.x0 + std::min(frame.canvas.Px(kSetup), std::floor(0.42F * frame.box.Width()));
  frame.canvas.Fill(setup, frame.canvas.theme.panel);
  // Without a catalogue the form stays usable and shows the problem.
  static const Catalogue kEmpty;
  DrawSetup(frame, setup, catalogue_ ? *catalogue_ : kEmpty, desktop_, search_, view_);
  if (search_.found() != nullptr) {
    DrawFound(frame, found);
  } else if (search_.error()) {
    DrawNothingFound(frame, found, *search_.error(), view_);
  } else {
    DrawEmpty(frame, found,
              search_.IsRunning() ? "Searching..." : "Choose a model and a cluster, then search.");
  }
  if (view_.wants_search) Start();
  if (view_.wants_cancel) search_.Cancel();
  if (view_.wants_run) TakeRun();
}

std::vector<std::string> PlanScreen::Chips() const {
  if (search_.IsRunning()) return {fmt::format("searching, {:.0f} %", 100 * search_.share())};
  if (search_.found() == nullptr) return {};
  return {fmt::format("{} plans simulated", search_.found()->plans.size())};
}

std::vector<HelpLine> PlanScreen::Help() const {
  return {
      {"click", "select a plan, in the table or in the plot"},
      {"double click", "turn the plan's knobs in What-if"},
      {"P", "pin the selected plan, or unpin it"},
      {"header of the table", "sort by that column, again for the other way"},
      {"filled mark", "on the front: no plan that was simulated is faster and smaller"},
      {"ring", "a measured run of this model, tied to its forecast"},
  };
}

}  // namespace foretrain::ui
