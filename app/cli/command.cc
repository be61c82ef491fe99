#include "app/cli/command.h"

#include <csignal>
#include <cstdio>

#include "app/cli/shell/terminal.h"

namespace foretrain {

// Errors of input end in 2, an infeasible plan in 1, faults of the machine in 3.
Exit ExitOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kCorruptInput:
    case ErrorCode::kUnsupported:
      return Exit::kBadInput;
    case ErrorCode::kInfeasible:
      return Exit::kNo;
    case ErrorCode::kIo:
    case ErrorCode::kResourceExhausted:
    case ErrorCode::kAborted:
    case ErrorCode::kTimeout:
    case ErrorCode::kNotFinite:
      return Exit::kFault;
  }
  return Exit::kFault;
}

Exit ExitOfSignal(int signal) { return signal == SIGINT ? Exit::kInterrupted : Exit::kTerminated; }

void Command::DeclareJson(Arguments& arguments) {
  arguments.Flag("--json", json_, "Print JSON instead of text");
}

void Command::DeclareTable(Arguments& arguments) {
  DeclareJson(arguments);
  arguments.Flag("--csv", csv_, "Print the table as CSV, with all columns");
  arguments.Flag("--wide", wide_, "Print all columns of the table, however long its lines become");
}

int Command::LineWidth() const { return wide_ ? 0 : TerminalWidth(); }

void Command::Show(const Table& table) const {
  std::fputs((csv_ ? table.Csv() : table.Text(0, LineWidth())).c_str(), stdout);
}

}  // namespace foretrain
