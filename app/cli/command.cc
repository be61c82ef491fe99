#include "app/cli/command.h"

#include <csignal>

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

}  // namespace foretrain
