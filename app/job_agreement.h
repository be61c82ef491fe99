// What the processes of a run must have in common beside what they compute: else they would train
// on in silence, each something else.
#pragma once

#include "app/training.h"
#include "base/result.h"
#include "runtime/data/token_data.h"
#include "runtime/processes/process_group.h"
#include "runtime/trainer.h"

namespace foretrain {

// Compares build, program, data, steps, seed, learning rate and what is recorded with those of rank
// 0's process. Errors: kInvalidArgument, one differs, which is named; those of
// ProcessGroup::Agree. O(tokens).
Result<void> AgreeOnJob(ProcessGroup& group, const TrainJob& job, const TrainingOptions& options,
                        const TokenData& data);

}  // namespace foretrain
