// Named places at which a crash test stops the process: what lies on disk then must be whole.
//
// In the product they do nothing: base/stop_point.cc defines an empty function. What stops a
// process lies in tests/stop_points.cc, and a test's executable links that file beside the
// libraries, whose empty one the linker then leaves out. So every build is tested with the objects
// that users get, and no setting of a user's environment can stop the executable `foretrain`. A
// switch of the build would instead make the tested objects others than those that are shipped.
#pragma once

#include <string_view>

namespace foretrain {

// Place `name`, e.g. "store.batch", in `rank`, or -1 where there is none. Not for what runs more
// often than some thousand times a second. Safe from any thread.
void StopPoint(std::string_view name, int rank = -1);

}  // namespace foretrain
