// A training run in a child process, as the desktop sees it. Leaves out how it is started: the
// program hands in a function, because the desktop does not link the runtime.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace foretrain {

struct TrainingEnd {
  int exit_code = 0;  // of the command; meaningless if a signal ended it
  int signal = 0;     // 0: none
};

// Output and state of the process since the last Poll.
struct TrainingNews {
  std::string output{};  // stdout and stderr, cut anywhere
  std::string errors{};
  std::optional<std::int64_t> resident_bytes{};  // of the process
  std::optional<TrainingEnd> end{};
};

class TrainingProcess {
 public:
  // A process that still runs goes on, unless EndsWithDesktop was set.
  virtual ~TrainingProcess() = default;

  // Never waits. Empty after the end was reported.
  virtual TrainingNews Poll() = 0;

  // Like Ctrl-C: the first call ends the run at a step boundary, the second at once.
  virtual void Stop() = 0;

  virtual void EndsWithDesktop(bool ends) = 0;
};

// Starts `foretrain` with these arguments, the command first. Errors: kUnsupported or
// kResourceExhausted, with the system's reason.
using StartTraining =
    std::function<Result<std::unique_ptr<TrainingProcess>>(const std::vector<std::string>&)>;

}  // namespace foretrain
