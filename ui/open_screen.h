// A screen placed as the options ask, for pictures and windows alike.
#pragma once

#include <memory>

#include "ui/compare_view.h"
#include "ui/view/compare_screen.h"

namespace foretrain::ui {

// `input` must outlive the screen. Errors: kInvalidArgument, as ScreenshotCompare.
Result<std::unique_ptr<CompareScreen>> OpenScreen(const CompareInput& input,
                                                  const ViewOptions& options, const Fonts& fonts);

}  // namespace foretrain::ui
