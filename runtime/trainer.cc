#include "runtime/trainer.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace foretrain {

float LearningRate::At(std::int64_t step) const {
  if (step < warmup) {
    return static_cast<float>(peak * static_cast<double>(step + 1) / static_cast<double>(warmup));
  }
  if (!cosine || steps <= warmup) return static_cast<float>(peak);
  const double progress =
      std::min(1.0, static_cast<double>(step - warmup) / static_cast<double>(steps - warmup));
  return static_cast<float>(peak * (0.1 + 0.45 * (1 + std::cos(std::numbers::pi * progress))));
}

Result<RunSummary> Train(const TrainJob& job, const FtDeviceApi& api, RunClock& clock,
                         BatchSource& batches, RunSink& sink, std::function<bool()> stop) {
  ExecutorOptions options = job.executor;
  options.learning_rate = [rate = job.learning_rate](std::int64_t step) { return rate.At(step); };
  FT_ASSIGN(const auto executor, Executor::Make(job.program, api, clock, std::move(options)));
  FT_TRY(FillParameters(*executor,
                        job.weights ? job.weights : InitialWeights(job.program->model, job.seed)));
  return executor->Run(job.steps, batches, sink, std::move(stop));
}

}  // namespace foretrain
