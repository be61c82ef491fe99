// A port of this machine for a test.
#pragma once

#include "runtime/processes/socket.h"

namespace foretrain {

// One that was free a moment ago.
inline int FreePort() {
  const auto listener = ListenAt(0);
  return listener.has_value() ? PortOf(*listener) : 0;
}

}  // namespace foretrain
