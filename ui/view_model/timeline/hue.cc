#include "ui/view_model/timeline/hue.h"

namespace foretrain::ui {
std::string_view Name(Hue hue) {
  switch (hue) {
    case Hue::kForward:
      return "forward";
    case Hue::kBackward:
      return "backward";
    case Hue::kUpdate:
      return "weights and update";
    case Hue::kRecompute:
      return "recompute";
    case Hue::kCollective:
      return "collective";
    case Hue::kPointToPoint:
      return "send and receive";
    case Hue::kCopy:
      return "copy";
    case Hue::kHost:
      return "host";
    case Hue::kUnnamed:
      break;
  }
  return "unnamed";
}

}  // namespace foretrain::ui
