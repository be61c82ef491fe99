// Named points at which a crash test stops the process; the data on disk must then be whole.
//
// In the product StopPoint does nothing: base/stop_point.cc defines it empty. Test executables link
// tests/stop_points.cc, whose definition the linker then prefers to the library's. So every build
// is tested with the objects that users get, and no environment variable can stop `foretrain`. A
// build switch would instead test other objects than those shipped.
#pragma once

#include <string_view>

namespace foretrain {

// Marks point `name`, e.g. "store.batch"; `rank` is -1 if the point belongs to no rank. Not for
// points passed more than some thousand times a second. Safe from any thread.
void StopPoint(std::string_view name, int rank = -1);

}  // namespace foretrain
