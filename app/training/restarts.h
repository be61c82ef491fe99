// `train --restarts N`: starts the training again from its newest checkpoint when it fails.
#pragma once

#include <string>
#include <vector>

#include "app/cli/command.h"
#include "base/result.h"

namespace foretrain {

struct RestartOptions {
  int restarts = 0;      // at most
  int fewest_ranks = 0;  // that the training may go on with; 0: as many as at first
  std::string folder;    // of --save
};

// Runs `foretrain train` with `arguments` as a child that writes to this process's output. If it
// fails (exit code 3, or a signal ends it), runs it again with --resume, at most
// options.restarts times. If it fails twice without a new checkpoint in between, it goes on with
// one rank fewer, because a rank has probably gone for good. Passes SIGINT, SIGTERM and SIGHUP on.
// Says on stderr why and from which step it starts again.
//
//   arguments  of `train`, without --restarts and --min-ranks
//
// Returns how the last child ended. Errors: kInvalidArgument or kResourceExhausted, no process can
// be started.
Result<Exit> RunWithRestarts(const std::vector<std::string>& arguments,
                             const RestartOptions& options);

}  // namespace foretrain
