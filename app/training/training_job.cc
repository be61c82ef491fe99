#include "app/training/training_job.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "app/build_info.h"
#include "app/cli/flags/optimizer_flags.h"
#include "base/hash.h"
#include "base/text.h"
#include "kernels/cpu/cpu_device.h"
#include "runtime/parameters/peft.h"
#include "runtime/parameters/weights.h"

namespace foretrain {
namespace {

// The weights in the files that the options name. Adapters are trained on if the plan has adapters,
// and merged into the weights if not.
Result<TensorSource> InitialFiles(const TrainingOptions& options, const ModelSpec& model,
                                  const Plan& plan, std::uint64_t seed) {
  static PosixFileSystem files;  // outlives the source, which reads from it
  FT_ASSIGN(const Weights weights, OpenWeights(files, options.init, model, seed));
  if (!weights.unused.empty() && !options.ranks.IsMember()) {
    std::fprintf(stderr, "foretrain: %s: %zu tensors are no part of the model, the first is %s\n",
                 options.init.c_str(), weights.unused.size(),
                 Printable(weights.unused.front(), 200).c_str());
  }
  if (options.adapters.empty()) return weights.source;
  if (!weights.names) {
    return Fail(ErrorCode::kInvalidArgument,
                "--adapters: " + options.init + " has no names of the Hugging Face library");
  }
  FT_ASSIGN(const AdapterOf adapters, OpenAdapters(files, options.adapters, model, *weights.names));
  if (!plan.HasAdapters()) return MergedWeights(weights.source, adapters);
  return WeightsWithAdapters(weights.source, adapters, model, plan, seed);
}

// The steps of the whole training, those before a checkpoint included.
std::int64_t AllSteps(const TrainJob& job) { return job.executor.first_step + job.steps; }

}  // namespace

const FtDeviceApi& DeviceOf(const TrainingOptions& options) {
  return options.device != nullptr ? *options.device : CpuDeviceApi();
}

Result<TrainJob> JobOf(const ForecastContext& context, const Plan& plan,
                       const TrainingOptions& options) {
  TrainJob job = options.job;
  job.processes = options.ranks.processes.get();
  ExecutorOptions& executor = job.executor;
  executor.local = options.ranks.local;
  executor.world = options.ranks.world;
  executor.gemm_algorithms = context.costs.profile().gemm_algorithms;
  executor.attention_times = context.costs.profile().attention_times;
  executor.record_spans = options.capture != CaptureLevel::kOff;
  executor.record_memory = options.capture == CaptureLevel::kFull;
  executor.faults = AskedFaults();
  if (options.pattern_weights) job.weights = PatternWeights(context.model, job.seed);
  if (!options.init.empty()) {
    FT_ASSIGN(job.weights, InitialFiles(options, context.model, plan, job.seed));
  }
  return job;
}

Result<void> AgreeOnJob(ProcessGroup& group, const TrainJob& job, const TrainingOptions& options,
                        const TokenData& data, const TokenData* evaluation) {
  FT_TRY(
      group.Agree("build", std::string(kBuildInfo.version) + " " + std::string(kBuildInfo.commit)));
  FT_TRY(group.Agree("program", HexText(job.program->hash)));
  FT_TRY(group.Agree("data file",
                     fmt::format("{} tokens, hash {}", data.tokens(), HexText(data.Digest()))));
  FT_TRY(group.Agree("--eval-data", evaluation == nullptr
                                        ? "none"
                                        : fmt::format("{} tokens, hash {}", evaluation->tokens(),
                                                      HexText(evaluation->Digest()))));
  const CaptureWindow& window = job.executor.window;
  return group.Agree(
      "command",
      fmt::format(
          "steps {} to {}, seed {}, learning rate {}, {}, graphs {}, "
          "attention {}, tensor kernels {}, capture {} of "
          "steps {} to {} of ranks {}, counters every {} ns, spikes {}, evaluations every {} of {}",
          job.executor.first_step, AllSteps(job), job.seed, Describe(job.learning_rate),
          Describe(job.executor.optimizer), job.executor.graphs ? "on" : "off",
          static_cast<int>(job.executor.attention), static_cast<int>(job.executor.tensor_kernels),
          static_cast<int>(options.capture), window.first_step, window.end_step,
          fmt::join(window.ranks, " "), options.counters_interval_ns,
          job.skips_spikes ? "skipped" : "told", job.evaluation.every, job.evaluation.batches));
}

}  // namespace foretrain
