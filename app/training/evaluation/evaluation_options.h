// The options of a training's evaluations: --eval-data, --eval-fraction, --eval-every and
// --eval-batches.
#pragma once

#include <cstdint>
#include <string>

#include "app/cli/arguments.h"
#include "base/result.h"

namespace foretrain {

struct EvaluationOptions {
  std::string data;          // as --data; empty: the end of the training's data
  double fraction = 0;       // of each source of --data, kept from the training; 0: none
  std::int64_t every = 100;  // steps between two evaluations
  std::int64_t batches = 8;  // of an evaluation

  bool Asked() const { return !data.empty() || fraction > 0; }
};

void DeclareEvaluation(Arguments& arguments, EvaluationOptions& options);

// Errors: kInvalidArgument, naming option, value and remedy.
Result<void> CheckEvaluation(const EvaluationOptions& options);

}  // namespace foretrain
