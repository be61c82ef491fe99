#include "runtime/run/fault_injector.h"

namespace foretrain {

// This file may define nothing else: see base/stop_point.h.
FaultInjector* AskedFaults() { return nullptr; }

}  // namespace foretrain
