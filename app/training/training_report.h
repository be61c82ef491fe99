// Prints the result of a training run.
#pragma once

#include <string>

#include "app/training/training.h"
#include "app/training/training_options.h"

namespace foretrain {

// Only the lines that apply to the run. `store`: the file that has it.
void PrintResult(const TrainingResult& result, const ParameterCounts& counts,
                 const TrainingOptions& options, const std::string& store);

// The last line of `train --json`, after one line for each step; docs/json.md lists the keys.
void PrintResultJson(const Plan& plan, const TrainingResult& result, const ParameterCounts& counts,
                     const TrainingOptions& options);

}  // namespace foretrain
