#include "app/command.h"

namespace foretrain {

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
      return Exit::kFault;
  }
  return Exit::kFault;
}

void Command::DeclareJson(Arguments& arguments) {
  arguments.Flag("--json", json_, "Print JSON instead of text");
}

}  // namespace foretrain
