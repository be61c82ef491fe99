// The man page.
#include <string>
#include <string_view>

#include "app/build_info.h"
#include "app/cli/shell/command_descriptions.h"
#include "base/text.h"

namespace foretrain {
namespace {

// Text of roff: backslashes and minus signs are written out, and no line starts with a request.
std::string Roff(std::string_view text) {
  std::string out;
  bool starts = true;
  for (const char c : text) {
    if (starts && (c == '.' || c == '\'')) out += "\\&";
    starts = c == '\n';
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string NamesOf(const OptionDescription& option) {
  std::string text = "\\fB" + Roff(Join(option.names, ", ")) + "\\fR";
  return option.value.empty() ? text : text + " \\fI" + Roff(option.value) + "\\fR";
}

}  // namespace

std::string ManPage(const std::vector<CommandDescription>& commands) {
  std::string text = ".TH FORETRAIN 1 \"\" \"foretrain " + Roff(kBuildInfo.version) +
                     "\" \"User commands\"\n"
                     ".SH NAME\nforetrain \\- forecast a training run, run it, and see where the "
                     "forecast was wrong\n"
                     ".SH SYNOPSIS\n.B foretrain\n\\fICOMMAND\\fR [\\fIOPTION\\fR]...\n"
                     ".SH COMMANDS\n";
  for (const CommandDescription& command : commands) {
    text += ".TP\n\\fB" + Roff(command.name) + "\\fR\n" + Roff(command.summary) + ".\n";
  }
  for (const CommandDescription& command : commands) {
    text += ".SH \"foretrain " + Roff(command.name) + "\"\n" + Roff(command.summary) + ".\n";
    for (const OptionDescription& option : command.options) {
      text += ".TP\n" + NamesOf(option) + "\n" + Roff(option.help) + ".\n";
    }
    if (!command.footer.empty()) text += ".PP\n.nf\n" + Roff(command.footer) + "\n.fi\n";
  }
  return text +
         ".SH \"EXIT STATUS\"\n"
         "0 done; 1 the answer is no; 2 bad input; 3 a fault while running; 130 and 143 stopped by "
         "a signal.\n";
}

}  // namespace foretrain
