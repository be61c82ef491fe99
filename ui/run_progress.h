// The state of a run that another process records, as its store has it. Leaves out how it is read.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "traces/run.h"

namespace foretrain {

struct RunProgress {
  RunInfo info{};
  std::vector<Counter> series{};  // of the whole job: loss, tokens_per_s, resident_bytes, ...
  double tokens_per_step = 0;     // 0: unknown
  double predicted_step_s = 0;    // of its forecast; 0: unknown
};

// Reads a run of a store; called on a thread of its own. Errors: a sentence for the user.
using ReadProgress = std::function<Result<RunProgress>(const std::string& store, RunId run)>;

}  // namespace foretrain
