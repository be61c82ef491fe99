// Suggestions for a run: single changes of its plan that the forecast finds faster, as text and as
// JSON. Leaves out forecasting them: sim/search/advice/single_changes.h.
#pragma once

#include <string>

#include "sim/search/advice/single_changes.h"
#include "traces/metrics/metrics.h"

namespace foretrain {

class JsonWriter;

// Lists the changes by the part of the step that each shortens most, the largest part first.
//
//   step      the run's step, measured or forecast
//   measured  the run was measured: the text compares it with the forecast of the same plan
//   parts     `step.classes` are known; otherwise the forecast's are shown
std::string SuggestionsText(const TriedChanges& tried, const StepMetrics& step, bool measured,
                            bool parts);

// Writes the key `suggestions` into the open object: the plan as it is, and the changes, fastest
// first.
void WriteSuggestions(JsonWriter& json, const TriedChanges& tried);

}  // namespace foretrain
