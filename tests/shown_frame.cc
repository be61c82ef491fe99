// Replaces the empty function of ui/render/shown_frame.cc. FORETRAIN_SHOWN=file: each frame
// replaces the file with JSON of its number, view, labels, tooltip and the boxes of its widgets.
#include "ui/render/shown_frame.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace foretrain::ui {

void ShownFrame(std::string_view view, const FrameRecord& record) {
  static const char* const file = std::getenv("FORETRAIN_SHOWN");
  static int number = 0;
  if (file == nullptr) return;
  nlohmann::json shown = {{"frame", ++number},
                          {"view", view},
                          {"labels", record.labels},
                          {"tooltip", record.tooltip},
                          {"widgets", nlohmann::json::array()}};
  for (const WidgetRecord& widget : record.widgets) {
    const Box& box = widget.box;
    shown["widgets"].push_back(
        {{"label", widget.label}, {"box", {box.x0, box.y0, box.x1, box.y1}}});
  }
  const std::string newer = std::string(file) + ".new";
  // Names of ops may not be valid UTF-8.
  std::ofstream(newer) << shown.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::rename(newer.c_str(), file);
}

}  // namespace foretrain::ui
