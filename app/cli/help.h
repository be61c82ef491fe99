// The text of --help. A command with many options shows the main ones, and with `--help all` every
// one.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace foretrain {

// A command line whose help is asked for, in the words that the parser knows.
struct HelpRequest {
  std::vector<std::string> arguments;
  bool all = false;  // --help all, or `help COMMAND all`
};

// `help COMMAND` as `COMMAND --help`, and `help` as `--help`. An unknown command stays alone, so
// that it is refused. An `all` behind --help is taken out.
HelpRequest RequestOf(std::vector<std::string> arguments);

// The help of the command that was parsed, or of the program. Hides options of `app`.
//
//   all  every option, also of a command that has many
std::string HelpText(CLI::App& app, bool all);

}  // namespace foretrain
