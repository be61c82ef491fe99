#include "tests/ui/text_layout.h"

#include <fmt/format.h>

#include <algorithm>

namespace foretrain {
namespace {

using ui::Box;
using ui::TextRecord;

// Glyphs leave room in their line, so boxes may touch a little without touching letters.
constexpr float kSlackX = 1.5F;
constexpr float kSlackY = 3.0F;

Box Common(const Box& a, const Box& b) {
  return {std::max(a.x0, b.x0), std::max(a.y0, b.y0), std::min(a.x1, b.x1), std::min(a.y1, b.y1)};
}

std::string Place(const TextRecord& text) {
  return fmt::format("\"{}\" at {:.0f},{:.0f} to {:.0f},{:.0f}", text.text, text.box.x0,
                     text.box.y0, text.box.x1, text.box.y1);
}

bool IsCut(const TextRecord& text) {
  const bool sideways =
      text.box.x0 < text.clip.x0 - kSlackX || text.box.x1 > text.clip.x1 + kSlackX;
  const bool upright = text.box.y0 < text.clip.y0 - kSlackY || text.box.y1 > text.clip.y1 + kSlackY;
  return (sideways && !text.scrolls_sideways) || (upright && !text.scrolls);
}

}  // namespace

std::vector<std::string> LayoutProblems(const ui::FrameRecord& record) {
  std::vector<std::string> problems;
  std::vector<const TextRecord*> shown;
  for (const TextRecord& text : record.texts) {
    if (Common(text.box, text.clip).IsEmpty()) continue;  // scrolled away
    if (IsCut(text)) problems.push_back(Place(text) + " is cut");
    const Box visible = Common(text.box, text.clip);
    for (const TextRecord* other : shown) {
      const Box both = Common(visible, Common(other->box, other->clip));
      if (both.Width() <= kSlackX || both.Height() <= kSlackY) continue;
      problems.push_back(Place(text) + " lies over " + Place(*other));
    }
    shown.push_back(&text);
  }
  return problems;
}

}  // namespace foretrain
