// Named places at which a crash test stops the process: what lies on disk then must be whole. In a
// build without FORETRAIN_STOP_POINTS (which is one without tests) they are nothing at all.
#pragma once

#include <string_view>

namespace foretrain {

// What FT_STOP_POINT calls. Does nothing unless the environment, read at the first call, says
//
//   FORETRAIN_STOP_AT=name    the point at which to stop; `name#3` at its third passing, `name@2`
//                             in rank 2 alone, `name@2#3` both
//   FORETRAIN_STOP_HOW=kill   SIGKILL (default); `exit` ends by _exit(1), `abort` by abort(),
//                             `pause` stops the process as SIGSTOP does
//   FORETRAIN_STOP_LOG=file   appends a line "name rank" at each passing, so that a test finds the
//                             points rather than listing them
//
// `rank` is -1 where there is none. One branch when nothing is set. Safe from any thread.
void StopPoint(std::string_view name, int rank = -1);

}  // namespace foretrain

// FT_STOP_POINT("checkpoint.before_rename") or FT_STOP_POINT("checkpoint.before_rename", rank).
#if FORETRAIN_STOP_POINTS
#define FT_STOP_POINT(...) ::foretrain::StopPoint(__VA_ARGS__)
#else
#define FT_STOP_POINT(...) static_cast<void>(0)
#endif
