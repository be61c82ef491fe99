// A free port of this machine.
#pragma once

#include "runtime/processes/wire/socket.h"

namespace foretrain {

// A port that was free a moment ago.
inline int FreePort() {
  const auto listener = ListenAt("127.0.0.1", 0);
  return listener.has_value() ? PortOf(*listener) : 0;
}

}  // namespace foretrain
