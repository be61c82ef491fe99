#include "app/training/evaluation/evaluations.h"

#include <memory>
#include <utility>

#include "sim/simulate/simulate.h"

namespace foretrain {

Result<double> PrepareEvaluation(const EvaluationOptions& options, const ForecastContext& context,
                                 TokenData* data, Program& program, TrainJob& job) {
  if (data == nullptr) return 0.0;
  FT_ASSIGN(Program evaluation, CompileEvaluation(program));
  FT_ASSIGN(const ProgramCosts costs, context.costs.CostsOf(evaluation));
  SimulateOptions simulate;
  simulate.timeline = false;
  FT_ASSIGN(const Simulation simulation, Simulate(evaluation, costs, simulate));
  job.evaluation = {std::make_shared<const Program>(std::move(evaluation)), options.every,
                    options.batches, data};
  return simulation.step_s * static_cast<double>(options.batches);
}

}  // namespace foretrain
