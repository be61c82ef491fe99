// What a training tells while it runs. Leaves out what is stored of it: app/training.h.
#pragma once

#include <cstdint>
#include <string>

#include "app/training.h"

namespace foretrain {

// Shows each step: a JSON line, a bar that redraws itself, or a line now and then.
class TrainingProgress {
 public:
  explicit TrainingProgress(const TrainingOptions& options);
  void OnStep(const StepReport& report);
  void End() const;

 private:
  void PrintLine(const StepReport& report) const;
  // "  12.3 s left", once that can be told.
  std::string Left(std::int64_t done) const;
  std::string Bar(std::int64_t done) const;

  const TrainingOptions& options_;
  bool terminal_;
  bool drawn_ = false;
  double elapsed_s_ = 0;
};

}  // namespace foretrain
