// Steps from what the Hugging Face Trainer leaves: trainer_state.json, and the progress bars of its
// output.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/check/logs/trainer_log.h"

namespace foretrain {

// Reads a trainer_state.json into `log`: its summary, if the run ended. Errors: those of ParseJson;
// kInvalidArgument if it is another JSON file, or has no speed.
Result<void> ReadTrainerState(std::string_view text, std::string_view file, TrainerLog& log);

// Collects the steps of tqdm's bars. A log has bars of evaluations and downloads too: those of the
// training are the ones that took longest.
class ProgressBars {
 public:
  // Takes a line such as " 10%|# | 10/100 [00:30<04:30, 3.02s/it]"; others are passed over.
  void Read(std::string_view line, int number);
  std::vector<LogStep> Take();

 private:
  std::map<std::int64_t, std::vector<LogStep>> bars_;  // by the number of steps in all
  std::size_t steps_ = 0;
};

}  // namespace foretrain
