#include "app/job_agreement.h"

#include <fmt/format.h>

#include <string>

#include "app/build_info.h"
#include "base/hash.h"

namespace foretrain {

Result<void> AgreeOnJob(ProcessGroup& group, const TrainJob& job, const TrainingOptions& options,
                        const TokenData& data) {
  FT_TRY(
      group.Agree("build", std::string(kBuildInfo.version) + " " + std::string(kBuildInfo.commit)));
  FT_TRY(group.Agree("program", HexText(job.program->hash)));
  FT_TRY(group.Agree("data file",
                     fmt::format("{} tokens, hash {}", data.tokens(), HexText(data.Digest()))));
  const LearningRate& rate = options.learning_rate;
  const CaptureWindow& window = options.window;
  return group.Agree(
      "command", fmt::format("{} steps, seed {}, learning rate {} warmed up in {}{}, graphs {}, "
                             "attention {}, capture {} of "
                             "steps {} to {} of ranks {}",
                             options.steps, options.seed, rate.peak, rate.warmup,
                             rate.cosine ? ", cosine" : "", options.graphs ? "on" : "off",
                             static_cast<int>(options.attention), static_cast<int>(options.capture),
                             window.first_step, window.end_step, fmt::join(window.ranks, " ")));
}

}  // namespace foretrain
