// Checkpoints of one training run as the command line asks for them. Saving and loading:
// runtime/checkpoint/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/cli/flags/checkpoint_flags.h"
#include "base/result.h"
#include "runtime/data/token_data.h"
#include "runtime/run/trainer.h"

namespace foretrain {

inline constexpr const char* kDefaultCheckpoints = "checkpoints";

struct CheckpointOptions {
  std::string save;  // folder; empty: none are saved
  SaveEvery every{.ns = 600'000'000'000};
  int keep = 2;
  std::string resume;                  // a folder of checkpoints, or one of them; empty: none
  std::vector<std::string> arguments;  // of the command, saved for --resume
};

// Fills the job's checkpoint to go on from, its first and remaining steps, its time so far (a
// training without a checkpoint begins now), and when it saves.
// Before it, `job.steps` are all steps.
//
//   program      that the job will run
//   data_digest  of the training data
//   step_s       forecast of a step, which turns a time between saves into steps if ranks are
//                processes
//
// Prints on stderr which damaged checkpoints were passed over. Errors: those of OpenNewest and
// CheckFits; kInvalidArgument, the checkpoint is of other data, another batch or another seed, or
// has all steps already.
Result<void> PrepareCheckpoints(const CheckpointOptions& options, const Program& program,
                                std::uint64_t data_digest, double step_s, TrainJob& job);

// The command line with the arguments of the checkpoint that `--resume` names in front, so that
// options given now count. Returns it as it is without --resume.
//
//   arguments  of the program, without its name: "train", "--resume", ...
//
// Errors: those of OpenNewest.
Result<std::vector<std::string>> WithSavedArguments(std::vector<std::string> arguments);

}  // namespace foretrain
