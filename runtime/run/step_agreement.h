// Agreement among processes on the number of steps.
#pragma once

#include <cstdint>

namespace foretrain {

class StepAgreement {
 public:
  virtual ~StepAgreement() = default;

  // True if this process's ranks may begin `step` of the run, in order from 0; waits until that is
  // decided. `stop`: this process asks to end. All processes get the same answers. After a failure
  // no more steps may begin.
  virtual bool MayBegin(std::int64_t step, bool stop) = 0;
};

}  // namespace foretrain
