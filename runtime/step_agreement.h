// How processes that run one program agree how many steps it runs.
#pragma once

#include <cstdint>

namespace foretrain {

class StepAgreement {
 public:
  virtual ~StepAgreement() = default;

  // Whether this process's ranks may begin `step` of the run, steps in order from 0; waits until
  // that is settled. `stop`: this process asks for the end. All processes get the same answers. A
  // run that fails meanwhile may begin no more.
  virtual bool MayBegin(std::int64_t step, bool stop) = 0;
};

}  // namespace foretrain
