#include "app/cli/shell/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "base/table.h"

namespace foretrain {

// A terminal of fewer than kMin columns wraps lines itself: names alone need as much.
int TerminalWidth() {
  constexpr int kMin = 60;
  winsize size{};
  if (isatty(STDOUT_FILENO) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 ||
      size.ws_col == 0) {
    return kTableWidth;
  }
  return std::clamp(static_cast<int>(size.ws_col), kMin, kTableWidth);
}

}  // namespace foretrain
