#include "ui/desktop_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "base/io/file_system.h"
#include "base/units.h"
#include "ui/open_desktop.h"
#include "ui/render/headless.h"
#include "ui/render/png.h"
#include "ui/store_loader.h"

namespace foretrain {
namespace {

constexpr auto kMovingPause = std::chrono::milliseconds(20);
constexpr int kMaxMoving = 30'000;  // ten minutes: what moves longer is drawn as far as it came

}  // namespace

namespace ui {
namespace {

// Checks what needs no runs, before any are read.
Result<void> CheckOptions(const ViewOptions& options) {
  if (!std::isfinite(options.scale) || options.scale < 0.0 || options.scale > 8.0) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("scale {}: must be from 0 to 8", options.scale));
  }
  const bool empty = options.window_start_s.has_value() && options.window_end_s.has_value() &&
                     !(*options.window_end_s > *options.window_start_s);
  if (empty) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("window {}..{}: must end after it starts",
                                                         FormatSeconds(*options.window_start_s),
                                                         FormatSeconds(*options.window_end_s)));
  }
  return {};
}

// Without a step the median one is shown. The measured run decides if there is one.
Result<void> CheckStep(const CompareModel& model, const ViewOptions& options) {
  if (!options.step.has_value()) return {};
  const Side side = model.Of(Side::kMeasured).IsPresent() ? Side::kMeasured : Side::kPredicted;
  const std::vector<std::int32_t>& steps = model.Of(side).steps;
  if (std::binary_search(steps.begin(), steps.end(), *options.step)) return {};
  return Fail(ErrorCode::kInvalidArgument,
              steps.empty() ? fmt::format("step {}: the run has no steps", *options.step)
                            : fmt::format("step {}: the run has steps {} to {}", *options.step,
                                          steps.front(), steps.back()));
}

CompareOptions CompareOptionsOf(const CompareInput& input, const ViewOptions& options) {
  CompareOptions compare;
  (input.measured.has_value() ? compare.measured_step : compare.predicted_step) = options.step;
  compare.alignment = options.wall_clock ? Alignment::kWallClock : Alignment::kStepStart;
  compare.rows = options.queues ? LaneRows::kQueues : LaneRows::kMerged;
  return compare;
}

// Applies the window and the rank to the compare view. A window outside the step is refused,
// because an empty picture explains nothing.
Result<void> Place(const ViewOptions& options, CompareScreen& screen) {
  ViewState& state = screen.state();
  if (options.window_start_s.has_value()) {
    state.viewport.start_ns = *options.window_start_s * kNsPerSecond;
  }
  if (options.window_end_s.has_value()) {
    state.viewport.end_ns = *options.window_end_s * kNsPerSecond;
  }
  if (state.viewport.LengthNs() < kShortestViewNs) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("window: shows {} from {} on, at least {:.0f} ns can be shown",
                    FormatSeconds(state.viewport.LengthNs() / kNsPerSecond),
                    FormatSeconds(state.viewport.start_ns / kNsPerSecond), kShortestViewNs));
  }
  if (options.moment_s.has_value()) {
    state.play = {.on = true, .at_ns = *options.moment_s * kNsPerSecond};
    const auto step = PlayedStepOf(screen.model(), state.play);
    if (!step || state.play.at_ns < step->start_ns || state.play.at_ns > step->end_ns) {
      return Fail(
          ErrorCode::kInvalidArgument,
          step ? fmt::format("moment {}: the step lasts {}", FormatSeconds(*options.moment_s),
                             FormatSeconds((step->end_ns - step->start_ns) / kNsPerSecond))
               : fmt::format("moment {}: the runs have no step", FormatSeconds(*options.moment_s)));
    }
  }
  if (!options.memory_rank.has_value()) return {};
  const std::optional<std::size_t> lane = LaneOfRank(screen.model(), *options.memory_rank);
  if (!lane.has_value()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("rank {}: the runs have no such rank", *options.memory_rank));
  }
  state.memory_lane = *lane;
  return {};
}

}  // namespace

// Checks come in the order in which their inputs become known: options, view, step, window. The
// desktop is not shown before all pass.
Result<std::unique_ptr<Desktop>> OpenDesktop(OpenedStore opened, const ViewOptions& options) {
  FT_TRY(CheckOptions(options));
  const CompareOptions compare = CompareOptionsOf(opened.input, options);
  auto desktop = std::make_unique<Desktop>(
      std::make_unique<const CompareInput>(std::move(opened.input)), compare);
  FT_TRY(desktop->Show(options.view));
  DesktopState& state = desktop->state();
  state.light = options.light;
  state.session.SetStore({std::move(opened.path), opened.run, opened.against},
                         std::move(opened.runs), std::move(opened.models));
  state.stores.error = options.store_error;
  state.plan_start.setup = options.plan_setup;
  state.plan_start.search = options.search;
  state.plan_start.local = options.local;
  FT_TRY(CheckStep(state.session.model(), options));
  FT_TRY(Place(options, desktop->compare()));
  if (options.moment_s.has_value()) state.dock.Open(DockTab::kPlay);
  return desktop;
}

}  // namespace ui

// Draws frames until nothing moves and no thread works, so that the same command gives the same
// picture. At most kMaxMoving frames.
Result<void> ScreenshotDesktop(OpenedStore opened, const ViewOptions& options,
                               const std::string& path, const ExplainRuns& explain,
                               StoreAccess* stores, const FindLive& find_live) {
  FT_TRY(ui::CheckOptions(options));
  const ui::ViewSize size{static_cast<float>(options.width), static_cast<float>(options.height),
                          options.scale > 0.0 ? static_cast<float>(options.scale) : 1.0F};
  FT_ASSIGN(const std::unique_ptr<ui::HeadlessView> view,
            ui::HeadlessView::Create(size, options.font_folders.value_or(ui::FontFolders())));
  FT_ASSIGN(const std::unique_ptr<ui::Desktop> desktop,
            ui::OpenDesktop(std::move(opened), options));
  desktop->state().services.explain = explain;
  desktop->state().services.find_live = find_live;
  desktop->state().still = true;
  // Widgets take their sizes in the first frame and their places in the next; work on other threads
  // is waited for.
  ui::StoreLoader loader(stores, {}, /*follows=*/false);
  view->Frame(*desktop);
  loader.Refresh(0.0, desktop->state());
  for (int i = 0; i < kMaxMoving && (desktop->IsMoving() || loader.IsBusy()); ++i) {
    std::this_thread::sleep_for(kMovingPause);
    loader.Refresh(0.0, desktop->state());
    view->Frame(*desktop);
  }
  const ui::FrameRecord& record = view->Frame(*desktop);
  if (!path.ends_with(".svg")) return ui::WritePng(view->Read(), path);
  PosixFileSystem files;
  return WriteFileAtomically(files, path, view->Svg(record, desktop->ground()));
}

Result<bool> ViewNeedsRuns(const std::string& view) {
  FT_ASSIGN(const std::size_t place, ui::FindView(view));
  return ui::ViewTable()[place].strip;
}

Result<void> ShowDesktop(OpenedStore opened, const ViewOptions& options,
                         const DesktopHooks& hooks) {
  FT_TRY(ui::CheckOptions(options));
  return ui::RunWindow(std::move(opened), options, hooks);
}

}  // namespace foretrain
