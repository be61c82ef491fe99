// Metrics as text for a terminal and as JSON, the same for a forecast and for a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/forecast/forecasting.h"
#include "app/report/memory_report.h"
#include "sim/program/blocks/parameters.h"
#include "traces/metrics/metrics.h"
#include "traces/timeline.h"

namespace foretrain {

class JsonWriter;

// Step time, tokens/s, MFU and, if there are `spans`, the parts of the step: one metric a line. The
// lines `after_mfu` follow MFU.
std::string StepText(const StepMetrics& step, bool spans = true, const std::string& after_mfu = "");

// The metrics of a step in the order in which they are shown.
struct ShownMetric {
  const char* name;
  std::string text;
};
std::vector<ShownMetric> ShownMetrics(const StepMetrics& step);

// One line of that form.
std::string MetricLine(const std::string& name, const std::string& value);

// "parameters  124,734,720, of which 294,912 (0.24 %) are trained", a line.
std::string ParametersText(const ParameterCounts& counts);
// The fields `parameters` and `trained_parameters`.
void WriteParameters(JsonWriter& json, const ParameterCounts& counts);

// 1234567 -> "1,234,567".
std::string FormatCount(std::int64_t count);

// One line a rank over one step, of at most 16 ranks, `width` columns: F forward, B backward, W
// weight half, R recomputation, u update, - communication alone, . idle.
std::string TimelineText(const Timeline& timeline, int step, int width);

// The keys of `predict --json`: step_time_s tokens_per_s mfu hfu bubble exposed_communication_s
// overlap and memory_gib by category, into the open object of `json`.
void WriteMetrics(JsonWriter& json, const StepMetrics& step, const std::vector<NamedPeak>& peaks);

}  // namespace foretrain
