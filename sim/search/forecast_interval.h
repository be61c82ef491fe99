// The interval that a forecast stands for. Leaves out where its error comes from (cost_model.h).
#pragma once

#include <cmath>

namespace foretrain {

struct ForecastInterval {
  double low_s = 0;
  double high_s = 0;

  bool Holds(double seconds) const { return low_s <= seconds && seconds <= high_s; }
};

// 90 % of a normal distribution lie within so many standard deviations of its mean.
inline constexpr double kIntervalDeviations = 1.645;

// Where 90 % of measurements of a step that is forecast to take `step_s` lie; `error` is one
// standard deviation of ln(measured / forecast).
inline ForecastInterval ForecastIntervalOf(double step_s, double error) {
  const double factor = std::exp(kIntervalDeviations * error);
  return {step_s / factor, step_s * factor};
}

}  // namespace foretrain
