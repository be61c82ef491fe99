// Checks the texts of a frame against its pixels: each must stand out from what lies under it.
#pragma once

#include <string>
#include <vector>

#include "ui/view/widgets/canvas.h"

namespace foretrain {

inline constexpr double kLeastContrast = 4.5;  // WCAG 2.1, level AA

// A sentence for each text whose contrast to a colour that covers a fifth of its box, or the most
// of it, is under kLeastContrast. Texts of controls that cannot be used are left out, as the
// guidelines allow.
//
//   image  the pixels of the frame that `record` describes
//
// O(pixels of the texts).
std::vector<std::string> ContrastProblems(const ui::FrameRecord& record, const ui::Image& image);

}  // namespace foretrain
