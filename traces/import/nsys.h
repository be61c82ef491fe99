// Reads the SQLite export of NVIDIA Nsight Systems (`nsys export --type sqlite`): kernels, copies,
// CUDA runtime calls and NVTX ranges. Tables and columns that a version lacks are skipped. Nsight's
// own .nsys-rep files are not read.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "traces/import/raw_events.h"

namespace foretrain::trace_import {

// The events of each process that used a device, by process number; of all processes if none did.
//
//   go_on  called now and then; false ends the reading with kAborted
//
// Errors: kCorruptInput, not a database, a damaged one, or none of these tables; kAborted.
Result<std::vector<RankEvents>> ReadNsys(const std::string& path,
                                         const std::function<bool()>& go_on);

}  // namespace foretrain::trace_import
