#include "app/cli/flags/learning_rate_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace foretrain {

void DeclareLearningRate(Arguments& arguments, LearningRate& rate) {
  arguments.Option("--lr", rate.peak, "RATE", "Peak learning rate");
  arguments.Choice("--lr-schedule", rate.schedule,
                   {{"constant", LearningRateSchedule::kConstant},
                    {"linear", LearningRateSchedule::kLinear},
                    {"cosine", LearningRateSchedule::kCosine},
                    {"wsd", LearningRateSchedule::kWsd}},
                   "Learning rate after the warm-up: it stays, falls linearly or as a cosine, or "
                   "stays and falls linearly at the end (wsd)");
  arguments.Option("--warmup", rate.warmup, "N",
                   "Steps over which the learning rate rises to its peak");
  arguments.Option("--lr-min", rate.min, "RATE", "Learning rate at the end of its fall");
  arguments.Option("--lr-decay-steps", rate.decay_steps, "N",
                   "Steps over which the learning rate falls; 0: all after the warm-up, or with "
                   "wsd the last tenth of --steps");
}

namespace {

Result<void> Refuse(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

}  // namespace

Result<void> CheckLearningRate(const LearningRate& rate) {
  if (!std::isfinite(rate.peak) || rate.peak < 0) {
    return Refuse(
        fmt::format("--lr: {} is not a learning rate; give 0 or more, e.g. 3e-4", rate.peak));
  }
  if (rate.warmup < 0) return Refuse(fmt::format("--warmup: {} is below 0", rate.warmup));
  if (rate.decay_steps < 0) {
    return Refuse(fmt::format("--lr-decay-steps: {} is below 0", rate.decay_steps));
  }
  if (!std::isfinite(rate.min) || rate.min < 0 || rate.min > rate.peak) {
    return Refuse(fmt::format("--lr-min: {} is outside 0 to --lr {}", rate.min, rate.peak));
  }
  if (rate.schedule == LearningRateSchedule::kConstant) {
    if (rate.min == 0 && rate.decay_steps == 0) return {};
    return Refuse(
        fmt::format("{}: the learning rate is constant and never falls; give --lr-schedule linear, "
                    "cosine or wsd",
                    rate.min > 0 ? "--lr-min" : "--lr-decay-steps"));
  }
  const std::int64_t fall = std::max<std::int64_t>(1, rate.decay_steps);
  const bool ends_with_steps = rate.schedule == LearningRateSchedule::kWsd || rate.decay_steps == 0;
  if (ends_with_steps && fall > rate.steps) {
    return Refuse(
        fmt::format("--lr-decay-steps: {} exceed the {} steps of the training; use {} or "
                    "less",
                    fall, rate.steps, rate.steps - rate.warmup));
  }
  if (ends_with_steps && rate.warmup > rate.steps - fall) {
    return Refuse(fmt::format(
        "--warmup: {} steps leave fewer than the {} in which the learning rate falls, of {} steps; "
        "use --warmup {} or less",
        rate.warmup, fall, rate.steps, std::max<std::int64_t>(0, rate.steps - fall)));
  }
  return {};
}

}  // namespace foretrain
