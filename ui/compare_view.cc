#include "ui/compare_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/units.h"
#include "ui/open_screen.h"
#include "ui/render/headless.h"
#include "ui/render/png.h"
#include "ui/render/window.h"

namespace foretrain {
namespace ui {
namespace {

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

CompareOptions CompareOptionsOf(const CompareInput& input, const ViewOptions& options,
                                const Fonts& fonts) {
  CompareOptions compare;
  (input.measured.has_value() ? compare.measured_step : compare.predicted_step) = options.step;
  compare.alignment = options.wall_clock ? Alignment::kWallClock : Alignment::kStepStart;
  compare.rows = options.queues ? LaneRows::kQueues : LaneRows::kMerged;
  if (!fonts.missing.empty()) compare.notices.push_back(fonts.missing);
  return compare;
}

Result<void> Place(const ViewOptions& options, CompareScreen& screen) {
  FT_TRY(CheckStep(screen.model(), options));
  ViewState& state = screen.state();
  state.light = options.light;
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

Result<std::unique_ptr<CompareScreen>> OpenScreen(const CompareInput& input,
                                                  const ViewOptions& options, const Fonts& fonts) {
  FT_TRY(CheckOptions(options));
  auto screen = std::make_unique<CompareScreen>(input, CompareOptionsOf(input, options, fonts));
  FT_TRY(Place(options, *screen));
  return screen;
}

}  // namespace ui

Result<void> ScreenshotCompare(const CompareInput& input, const ViewOptions& options,
                               const std::string& path) {
  FT_TRY(ui::CheckOptions(options));
  const ui::ViewSize size{static_cast<float>(options.width), static_cast<float>(options.height),
                          options.scale > 0.0 ? static_cast<float>(options.scale) : 1.0F};
  FT_ASSIGN(const std::unique_ptr<ui::HeadlessView> view,
            ui::HeadlessView::Create(size, options.font_folders.value_or(ui::FontFolders())));
  FT_ASSIGN(const std::unique_ptr<ui::CompareScreen> screen,
            ui::OpenScreen(input, options, view->fonts()));
  view->Frame(*screen);
  return ui::WritePng(view->Read(), path);
}

Result<void> ShowCompare(CompareInput input, const ViewOptions& options, const ReloadRuns& reload,
                         const std::function<bool()>& stop) {
  FT_TRY(ui::CheckOptions(options));
  return ui::RunWindow(std::make_unique<CompareInput>(std::move(input)), options, reload, stop);
}

}  // namespace foretrain
