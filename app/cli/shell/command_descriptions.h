// Commands and their options as data, for completion in shells and for the man page. They are read
// from the declarations that the parser uses, so they cannot differ.
#pragma once

#include <string>
#include <vector>

namespace foretrain {

struct OptionDescription {
  std::vector<std::string> names;  // "--model"; "-h"
  std::string value;               // "NAME|FILE"; empty: takes none
  std::string help;

  // Words to complete: "none", "host", "nvme" of "none|host|nvme". Empty unless all of `value` is
  // in lower case.
  std::vector<std::string> Words() const;
  bool TakesFile() const;  // FILE, PATH, DIR or FOLDER is part of `value`
};

struct CommandDescription {
  std::string name;
  std::string summary;
  std::string footer;  // examples
  std::vector<OptionDescription> options;
};

// All commands of CommandTable(), in its order. A few milliseconds.
std::vector<CommandDescription> DescribeCommands();

// Completion scripts of the shells.
std::string BashCompletion(const std::vector<CommandDescription>& commands);
std::string ZshCompletion(const std::vector<CommandDescription>& commands);
std::string FishCompletion(const std::vector<CommandDescription>& commands);

// foretrain(1) in the man macros of roff.
std::string ManPage(const std::vector<CommandDescription>& commands);

}  // namespace foretrain
