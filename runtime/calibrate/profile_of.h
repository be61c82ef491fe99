// MakeProfile turns samples into a device profile.
#pragma once

#include <map>
#include <vector>

#include "base/result.h"
#include "runtime/calibrate/calibrate.h"
#include "runtime/calibrate/samples.h"

namespace foretrain {

using ReferenceSpreads =
    std::map<int, std::vector<Spread>>;  // by number of ranks, in order of time

// Adds launch overheads from a run of one step of an OverheadBenchmark, in which nothing keeps the
// host waiting. The time from the issue of the first of kTinyOps tiny ops to that of the last is
// divided by their number.
void AddLaunches(const std::vector<Span>& spans, int concurrency, SampleTable& table);

// The profile: points, overheads, and rates for ops without points. Errors: those of
// ValidateProfile, for example with a clock that stands still.
Result<DeviceProfile> MakeProfile(const CalibrateOptions& options, const SampleTable& table,
                                  const ReferenceSpreads& references);

}  // namespace foretrain
