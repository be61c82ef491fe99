// `train --restarts N`: starts the training again from its newest checkpoint when it fails.
#pragma once

#include <string>
#include <vector>

#include "app/cli/command.h"
#include "base/result.h"

namespace foretrain {

// Runs `foretrain train` with `arguments` as a child that writes to this process's output. If it
// fails (exit code 3, or a signal ends it), runs it again with --resume, at most `restarts` times.
// Passes SIGINT, SIGTERM and SIGHUP on. Says on stderr why and from which step it starts again.
//
//   arguments  of `train`, without --restarts
//   folder     of --save
//
// Returns how the last child ended. Errors: kInvalidArgument or kResourceExhausted, no process can
// be started.
Result<Exit> RunWithRestarts(const std::vector<std::string>& arguments, int restarts,
                             const std::string& folder);

}  // namespace foretrain
