// What of a training run is recorded, as options of the command line.
#pragma once

#include <cstdint>
#include <string>

#include "app/arguments.h"
#include "base/result.h"
#include "profiler/capture.h"

namespace foretrain {

class CaptureFlags {
 public:
  void Declare(Arguments& arguments);

  // Errors: kInvalidArgument, naming the option: an unknown level, a window without a step of the
  // run's `steps`, a rank outside [0, world), a window of nothing.
  Result<CaptureLevel> Level() const;
  Result<CaptureWindow> Window(std::int64_t steps, int world) const;

 private:
  std::string level_ = "full";
  std::string first_step_;
  std::string end_step_;
  std::string ranks_;
};

}  // namespace foretrain
