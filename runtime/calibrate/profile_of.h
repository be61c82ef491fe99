// From samples to a device profile. Leaves out how samples are taken.
#pragma once

#include <map>
#include <vector>

#include "base/result.h"
#include "runtime/calibrate/calibrate.h"
#include "runtime/calibrate/samples.h"

namespace foretrain {

using ReferenceSpreads = std::map<int, std::vector<Spread>>;  // by ranks, in order of time

// Adds what the first kTinyOps ops of an OverheadSheet show of the host, in a run of one step, in
// which nothing keeps it waiting: time from its first batch of issued ops to its last, by op.
void AddLaunches(const std::vector<Span>& spans, int concurrency, SampleTable& table);

// The profile: points, overheads, and the rates that follow from them for ops that have no points.
// Errors: those of ValidateProfile, which a clock that stands still would bring about.
Result<DeviceProfile> MakeProfile(const CalibrateOptions& options, const SampleTable& table,
                                  const ReferenceSpreads& references);

}  // namespace foretrain
