#include "runtime/run/learning_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

namespace foretrain {
namespace {

std::string_view NameOf(LearningRateSchedule schedule) {
  switch (schedule) {
    case LearningRateSchedule::kConstant:
      return "constant";
    case LearningRateSchedule::kLinear:
      return "linear";
    case LearningRateSchedule::kCosine:
      return "cosine";
    case LearningRateSchedule::kWsd:
      return "wsd";
  }
  return "";
}

}  // namespace

std::int64_t LearningRate::DecaySteps() const {
  if (schedule == LearningRateSchedule::kConstant) return 0;
  if (decay_steps > 0) return decay_steps;
  const std::int64_t after_warmup = std::max<std::int64_t>(0, steps - warmup);
  if (schedule != LearningRateSchedule::kWsd) return after_warmup;
  return std::min(after_warmup, std::max<std::int64_t>(1, steps / 10));
}

std::int64_t LearningRate::DecayStart() const {
  return schedule == LearningRateSchedule::kWsd ? std::max(warmup, steps - DecaySteps()) : warmup;
}

float LearningRate::At(std::int64_t step) const {
  if (step < warmup) {
    return static_cast<float>(peak * static_cast<double>(step + 1) / static_cast<double>(warmup));
  }
  const std::int64_t length = DecaySteps(), since = step - DecayStart();
  if (length == 0 || since < 0) return static_cast<float>(peak);
  const double progress = std::min(1.0, static_cast<double>(since) / static_cast<double>(length));
  const double share = schedule == LearningRateSchedule::kCosine
                           ? (1 + std::cos(std::numbers::pi * progress)) / 2
                           : 1 - progress;
  return static_cast<float>(min + (peak - min) * share);
}

std::string Describe(const LearningRate& rate) {
  std::string text =
      fmt::format("{}, peak {}, warm-up {}", NameOf(rate.schedule), rate.peak, rate.warmup);
  if (rate.schedule != LearningRateSchedule::kConstant) {
    text += fmt::format(", {} steps down to {} from step {}", rate.DecaySteps(), rate.min,
                        rate.DecayStart());
  }
  return text;
}

}  // namespace foretrain
