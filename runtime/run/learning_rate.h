// The learning rate of each step, as a pure function of the step.
#pragma once

#include <cstdint>
#include <string>

namespace foretrain {

// How the learning rate falls after the warm-up. kLinear and kCosine fall at once. kWsd (warm-up,
// stable, decay; Hu et al. 2024, s. 4) stays at the peak and falls linearly at the end.
enum class LearningRateSchedule : std::uint8_t { kConstant, kLinear, kCosine, kWsd };

struct LearningRate {
  LearningRateSchedule schedule = LearningRateSchedule::kConstant;
  double peak = 3e-4;
  double min = 0.0;              // from the end of the fall on
  std::int64_t warmup = 0;       // steps over which the rate rises linearly to the peak
  std::int64_t decay_steps = 0;  // steps of the fall; 0: as DecaySteps says
  std::int64_t steps = 0;        // of the whole training

  // Steps of the fall: decay_steps. If that is 0: all steps after the warm-up, but a tenth of the
  // training (at least one step) for kWsd. 0 for kConstant, and if the warm-up leaves no step.
  std::int64_t DecaySteps() const;
  // First step of the fall, which still has the peak: after the warm-up; for kWsd, DecaySteps()
  // before the end of the training.
  std::int64_t DecayStart() const;
  // The rate of a step, counted from 0. The warm-up's step s has peak * (s + 1) / warmup, so its
  // last step has the peak. With t steps since DecayStart of T = DecaySteps():
  //
  //   linear, wsd   peak + (min - peak) t / T
  //   cosine        min + (peak - min) (1 + cos(pi t / T)) / 2     (Loshchilov and Hutter 2017)
  float At(std::int64_t step) const;
};

// For example "cosine, peak 0.0003, warm-up 100, 900 steps down to 0 from step 100".
std::string Describe(const LearningRate& rate);

}  // namespace foretrain
