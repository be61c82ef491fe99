// Priority of the calling thread.
#pragma once

namespace foretrain {

// Gives the calling thread the lowest priority: it then runs mostly on processors that are idle.
// For work whose result nobody waits for. Does nothing on systems without per-thread priorities
// (Linux has them).
void GiveWay();

}  // namespace foretrain
