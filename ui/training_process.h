// A training run as a child process, as the desktop sees it. Leaves out how it is started: whoever
// opens the desktop hands in a function, because the desktop does not link what trains.
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
  int exit_code = 0;  // of the command; meaningless where a signal ended it
  int signal = 0;     // 0: none
};

// What has come since the last time.
struct TrainingNews {
  std::string output{};  // stdout and stderr, cut anywhere
  std::string errors{};
  std::optional<std::int64_t> resident_bytes{};  // of the process
  std::optional<TrainingEnd> end{};
};

class TrainingProcess {
 public:
  // Leaves a process that still runs to itself, or stops it where EndsWithDesktop was asked for.
  virtual ~TrainingProcess() = default;

  // Never waits. Nothing comes after an end.
  virtual TrainingNews Poll() = 0;

  // As Ctrl-C does: the run ends at a step boundary, and at once the second time.
  virtual void Stop() = 0;

  virtual void EndsWithDesktop(bool ends) = 0;
};

// Starts `foretrain` with these arguments, the command first. Errors: kUnsupported or
// kResourceExhausted, with the system's reason.
using StartTraining =
    std::function<Result<std::unique_ptr<TrainingProcess>>(const std::vector<std::string>&)>;

}  // namespace foretrain
