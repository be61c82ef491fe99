// Shows on stderr what a forecast does while it takes longer than a second.
#pragma once

#include <atomic>
#include <thread>

#include "sim/forecast/forecast.h"

namespace foretrain {

class ForecastWatch {
 public:
  // `show`: draw a line if stderr is a terminal.
  explicit ForecastWatch(bool show);
  // Removes the line.
  ~ForecastWatch();
  ForecastWatch(const ForecastWatch&) = delete;
  ForecastWatch& operator=(const ForecastWatch&) = delete;

  // Sets `progress`. The forecast must not outlive this object.
  void Watch(ForecastOptions& options);

 private:
  void Draw(const std::stop_token& stop);

  std::atomic<ForecastPart> part_{ForecastPart::kCompile};
  std::jthread thread_;  // absent if nothing is shown
};

}  // namespace foretrain
