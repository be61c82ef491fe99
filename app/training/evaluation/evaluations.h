// The evaluations of one training run as the command line asks for them. Running them:
// runtime/run/evaluation.h.
#pragma once

#include "app/forecast/forecasting.h"
#include "app/training/evaluation/evaluation_options.h"
#include "base/result.h"
#include "runtime/data/token_data.h"
#include "runtime/run/trainer.h"

namespace foretrain {

// Compiles and forecasts the evaluation of `program`, whose arenas may grow for it, and fills the
// job's. Returns the forecast seconds of one evaluation; 0 if none is asked for.
//
//   data  borrowed by the job; null: none is asked for
//
// Errors: those of CompileEvaluation and of the simulation.
Result<double> PrepareEvaluation(const EvaluationOptions& options, const ForecastContext& context,
                                 TokenData* data, Program& program, TrainJob& job);

}  // namespace foretrain
