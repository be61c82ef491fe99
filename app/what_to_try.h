// What to try next, for a run whose step is taken apart: single changes of its plan, as text and as
// JSON. Leaves out forecasting them: sim/search/single_changes.h.
#pragma once

#include <string>

#include "sim/search/single_changes.h"
#include "traces/metrics/metrics.h"

namespace foretrain {

class JsonWriter;

// By what they take from most of all, the largest part of the step first.
//
//   step      the run's, measured or forecast
//   measured  whether it ran; then the text holds it against the forecast of the same plan
//   parts     whether `step.classes` are known; else the forecast's are shown
std::string WhatToTryText(const TriedChanges& tried, const StepMetrics& step, bool measured,
                          bool parts);

// The key `try` into the open object: `as_is` and the changes, fastest first.
void WriteWhatToTry(JsonWriter& json, const TriedChanges& tried);

}  // namespace foretrain
