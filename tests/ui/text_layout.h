// Checks the texts of a frame by their places: none may be cut, and no two may lie over each other.
#pragma once

#include <string>
#include <vector>

#include "ui/view/widgets/canvas.h"

namespace foretrain {

// A sentence for each text that is cut at the left or right, or above or below where nothing
// scrolls, and for each pair that overlaps. O(n^2) in the texts.
std::vector<std::string> LayoutProblems(const ui::FrameRecord& record);

}  // namespace foretrain
