// Makes a chosen op of a chosen rank fail, to test how the run reacts. Not set in production.
#pragma once

#include <cstdint>

namespace foretrain {

struct Fault {
  enum class Kind : std::uint8_t {
    kNone,
    kThrow,      // an exception of the standard library
    kFail,       // an Error
    kStall,      // does not return until the run is aborted
    kHang,       // calls `hang` and ignores the run's end, like a kernel that never returns
    kOtherCall,  // communication: a call of another size
    kDelay,      // starts `delay_ns` later
    kValue,      // the first value of the op's first output becomes `value`
  };
  Kind kind = Kind::kNone;
  std::int64_t delay_ns = 0;
  void (*hang)() = nullptr;
  float value = 0;
};

class FaultInjector {
 public:
  virtual ~FaultInjector() = default;
  // The fault for the op, by its number in the rank's step. Called from every thread of the run.
  virtual Fault At(int rank, std::int64_t step, std::int32_t op) = 0;
};

// The fault that the environment asks for, if tests/stop_points.cc is linked; null in the product.
// The object lives until the process ends.
FaultInjector* AskedFaults();

}  // namespace foretrain
