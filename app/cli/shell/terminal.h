// The width of the terminal that tables keep to.
#pragma once

namespace foretrain {

// Characters of a line of standard output: those of the terminal, at most kTableWidth
// (base/table.h); kTableWidth if it is no terminal.
int TerminalWidth();

}  // namespace foretrain
