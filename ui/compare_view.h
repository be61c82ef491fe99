// The compare view for whoever has two runs: as a picture, or in a window. Leaves out reading runs
// from a store (ui/stored_run.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "ui/run_view.h"

namespace foretrain {

struct ViewOptions {
  int width = 1600;  // pixels
  int height = 900;
  double scale = 1.0;  // of text and lines; 0: as the screen's density asks, 1 for a picture
  bool light = false;
  bool wall_clock = false;                 // runs begin together, not steps
  bool queues = false;                     // one row for each queue
  std::optional<std::int32_t> step{};      // of the measured run; default: the median one
  std::optional<double> window_start_s{};  // stretch to show, since the step (or the run) began;
  std::optional<double> window_end_s{};    // default: the whole step
  std::optional<int> memory_rank{};        // default: the fullest
  std::optional<std::vector<std::string>> font_folders{};  // default: where distributions put them;
                                                           // empty: the built-in font
};

// Draws the view without a display into the PNG `path`.
//
// Errors: kInvalidArgument, a size that is not 1 to 16384 pixels, a window that is empty, a step or
// rank that the runs do not have; kUnsupported, no driver draws without a display; kIo.
// The same runs and options give the same pixels on one machine.
Result<void> ScreenshotCompare(const CompareInput& input, const ViewOptions& options,
                               const std::string& path);

// Newer runs, or null where nothing has changed. Called about once a second, on a thread of its own
// but never twice at once.
using ReloadRuns = std::function<Result<std::unique_ptr<CompareInput>>()>;

// Shows the view in a window until it is closed, or until `stop`, asked at each frame and once a
// second, says so. Both functions may be empty; errors of `reload` are shown in the view and do not
// end it.
//
// Errors: as ScreenshotCompare; kUnsupported, there is no display, with what to do instead.
Result<void> ShowCompare(CompareInput input, const ViewOptions& options,
                         const ReloadRuns& reload = {}, const std::function<bool()>& stop = {});

}  // namespace foretrain
