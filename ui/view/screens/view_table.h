// The views of the desktop, in the order of the left rail.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ui/view/desktop/desktop_state.h"
#include "ui/view/screens/screen.h"

namespace foretrain::ui {

struct ViewEntry {
  std::string_view name;   // as --view takes it
  std::string_view title;  // on the rail
  char32_t icon;           // of Font Awesome 4.7
  char32_t key;            // '1' to '7'; with Ctrl while a text field has the keyboard
  bool strip;              // whether the numbers of the open runs are shown above it
  // Makes the screen, once, when it is first shown. The state outlives it.
  std::unique_ptr<Screen> (*make)(DesktopState& state);
};

const std::vector<ViewEntry>& ViewTable();

// Place of the view called `name` in the table.
// Errors: kInvalidArgument, with the names there are.
Result<std::size_t> FindView(std::string_view name);

}  // namespace foretrain::ui
