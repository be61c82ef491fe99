// Counters and errors of GPUs as text for a terminal and as JSON. Leaves out throttling, which is a
// note of the run (app/runs/recording_notes.h).
#pragma once

#include <span>
#include <string>

#include "traces/metrics/gpu/counters.h"
#include "traces/metrics/gpu/faults.h"

namespace foretrain {

class JsonWriter;

// A row for each rank and a column for each main series, as means over a step, in tables of at most
// 11 series; "" if there are none.
std::string GpuMeansText(std::span<const GpuMean> means);

// The keys `gpus` (all means, by rank) and `gpu_faults` into the open object. Empty lists are left
// out.
void WriteGpus(JsonWriter& json, std::span<const GpuMean> means, std::span<const GpuFault> faults);

}  // namespace foretrain
