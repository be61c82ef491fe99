// The tokens of a training and of its evaluations.
#pragma once

#include <memory>

#include "app/training/training_options.h"
#include "base/result.h"
#include "runtime/data/token_data.h"

namespace foretrain {

struct TrainingData {
  std::unique_ptr<TokenData> training;
  std::unique_ptr<TokenData> evaluation;  // null: the options ask for none
};

// Opens the files of the options, or takes their text if no file is given. With a fraction for
// evaluations, its tokens are the last ones of each source, and the training has those before.
// Evaluations read their samples in order, also if the training's are shuffled.
//
// Errors: those of TokenData::Open; kInvalidArgument, more batches for an evaluation than its data
// has.
Result<TrainingData> OpenTrainingData(const TrainingOptions& options, const ModelSpec& model,
                                      const Plan& plan);

}  // namespace foretrain
