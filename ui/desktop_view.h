// Shows the desktop, as a picture or in a window. Leaves out reading runs from a store
// (ui/stored_run.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "ui/explanation.h"
#include "ui/run_progress.h"
#include "ui/settings.h"
#include "ui/store_access.h"
#include "ui/training_process.h"
#include "ui/view_model/planning/plan_setup.h"

namespace foretrain {

struct ViewOptions {
  std::string view = "compare";  // name in the table of views (ui/view/screens/view_table.h)
  int width = 1600;              // pixels
  int height = 900;
  double scale = 1.0;  // of text and lines; 0: by the screen's density, 1 for a picture
  bool light = false;
  bool wall_clock = false;                  // align runs by wall clock instead of step start
  bool queues = false;                      // one row for each queue
  std::optional<std::int32_t> step{};       // of the measured run; default: the median one
  std::optional<double> window_start_s{};   // stretch to show, since the step (or the run) began;
  std::optional<double> window_end_s{};     // default: the whole step
  std::optional<double> moment_s{};         // moment of the step to stand at; default: none
  std::optional<int> memory_rank{};         // default: the fullest
  std::string store_error{};                // why no store is open; shown in place of runs
  ui::PlanSetup plan_setup{};               // start of the plan and what-if views
  bool search = false;                      // the plan view searches at once
  std::optional<ui::LocalMachine> local{};  // this machine's CPU, if its rates are known
  std::optional<std::vector<std::string>> font_folders{};  // default: where distributions put them;
                                                           // empty: the built-in font
};

// Draws a view into the PNG `path`, or as SVG if its name ends in .svg, without a display. The same
// runs and options give the same pixels on one machine.
//
//   explain, find_live  may be empty
//   stores              the source of `opened`; null if its runs were read whole
//
// Errors: kInvalidArgument, an unknown view, a size outside 1 to 16384 pixels, an empty window,
// or a step or rank that the runs do not have; kUnsupported, no driver draws without a display;
// kIo.
Result<void> ScreenshotDesktop(OpenedStore opened, const ViewOptions& options,
                               const std::string& path, const ExplainRuns& explain = {},
                               StoreAccess* stores = nullptr, const FindLive& find_live = {});

// Whether a view shows stored runs. The others are useful without a store. Errors:
// kInvalidArgument, no such view.
Result<bool> ViewNeedsRuns(const std::string& view);

// Functions and data that the program lends the desktop. Functions may be empty.
struct DesktopHooks {
  StoreAccess* stores = nullptr;         // null: no other store can be opened
  std::function<std::string()> doing{};  // progress of `stores`, if it takes long
  std::function<void()> close{};         // called when the window closes: ends the work of `stores`
  Settings settings{};                   // as last saved
  std::string notice{};                  // a sentence to show from the start
  std::function<void(const Settings&)> keep{};  // called when they have changed
  std::function<bool()> stop{};                 // asked at each frame and once a second
  ExplainRuns explain{};                        // empty: nothing is explained
  FindLive find_live{};                         // empty: tensors at the peak are not known
  StartTraining start_training{};               // empty: no run can be started
  ReadProgress read_progress{};                 // empty: no run can be followed
};

// Shows the desktop in a window until it is closed or `stop` returns true. If `opened` has no runs,
// the panel that opens stores is shown. Errors of stores are shown and do not end it.
//
// Errors: those of ScreenshotDesktop; kUnsupported, there is no display, with what to do instead.
Result<void> ShowDesktop(OpenedStore opened, const ViewOptions& options,
                         const DesktopHooks& hooks = {});

}  // namespace foretrain
