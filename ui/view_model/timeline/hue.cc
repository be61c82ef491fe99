#include "ui/view_model/timeline/hue.h"

namespace foretrain::ui {

std::string_view Name(Hue hue) {
  constexpr std::array<std::string_view, kHueCount> kNames{
      "forward",   "backward",   "weights and update",
      "recompute", "collective", "send and receive",
      "copy",      "host",       "unnamed"};
  return kNames[static_cast<std::size_t>(hue)];
}

}  // namespace foretrain::ui
