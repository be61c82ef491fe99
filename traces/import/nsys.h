// The SQLite export of NVIDIA Nsight Systems (`nsys export --type sqlite`): kernels, copies, calls
// of the CUDA runtime and NVTX ranges. Its tables and columns differ between versions: what is not
// there is left out. Leaves out Nsight's own .nsys-rep files.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "traces/import/raw_events.h"

namespace foretrain::trace_import {

// The events of each process that used a device, by process number; of all where none did.
//
//   go_on  asked now and then; false ends the reading with kAborted
//
// Errors: kCorruptInput, no database, a damaged one, or one without any of these tables; kAborted.
Result<std::vector<RankEvents>> ReadNsys(const std::string& path,
                                         const std::function<bool()>& go_on);

}  // namespace foretrain::trace_import
