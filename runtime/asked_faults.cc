#include "runtime/fault_injector.h"

namespace foretrain {

// Nothing else may be defined here: see base/stop_point.h.
FaultInjector* AskedFaults() { return nullptr; }

}  // namespace foretrain
