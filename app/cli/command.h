// The interface of a subcommand. Each has one small file in app/commands/.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/arguments.h"
#include "base/result.h"
#include "base/table.h"

namespace foretrain {

// How a command ends: 0 done, 1 the answer is no, 2 bad input, 3 a fault while running, 130 and 143
// stopped by a signal.
enum class Exit : int {
  kDone = 0,
  kNo = 1,
  kBadInput = 2,
  kFault = 3,
  kInterrupted = 130,
  kTerminated = 143
};

// The exit code that an error ends in.
Exit ExitOf(ErrorCode code);

// The exit code of work that the signal of StopSignal() has ended.
Exit ExitOfSignal(int signal);

class Command {
 public:
  virtual ~Command() = default;
  virtual void Declare(Arguments& arguments) = 0;
  // Runs with the option values in the variables that Declare named. An Error is printed on stderr,
  // and with --json also on stdout as {"schema":1,"error":...}.
  virtual Result<Exit> Run() = 0;
  bool json() const { return json_; }
  // The arguments that this command was given, for commands that repeat them later.
  void set_arguments(std::vector<std::string> arguments) { arguments_ = std::move(arguments); }

 protected:
  // Every command takes --json.
  void DeclareJson(Arguments& arguments);
  // Commands whose answer is a table also take --wide and --csv.
  void DeclareTable(Arguments& arguments);
  // Characters of a line of a table; 0 with --wide: as many as it needs.
  int LineWidth() const;
  // Prints the table as --wide and --csv say.
  void Show(const Table& table) const;
  bool json_ = false;
  bool wide_ = false;
  bool csv_ = false;
  std::vector<std::string> arguments_;
};

struct CommandEntry {
  const char* name;
  const char* summary;  // one line for `foretrain --help`
  std::unique_ptr<Command> (*make)();
};

// All commands in the order of the help text; app/commands.cc is the table.
std::span<const CommandEntry> CommandTable();

}  // namespace foretrain
