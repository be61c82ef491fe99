// Turns a forecast of passes or of ops into the timeline and memory that the lanes draw: one lane
// per pipeline stage. Metrics are in what_if.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/forecast/forecast.h"
#include "sim/forecast/pass_forecast.h"
#include "ui/view_model/runs/compare_model.h"

namespace foretrain::ui {

// Not movable: the model refers to the input.
struct StepPicture {
  StepPicture() = default;
  StepPicture(const StepPicture&) = delete;
  StepPicture& operator=(const StepPicture&) = delete;

  CompareInput input;       // the forecast alone
  CompareModel model;       // model of `input`
  std::vector<int> stages;  // pipeline rank of each lane
};

// Spans of the passes of a forecast, which must have passes; the rank of a span is its pipeline
// rank. After the passes come gradient reduction and update. Memory is that of stage `memory_pp`;
// the instructions of a pass share its time evenly.
Timeline TimelineOf(const ModelSpec& model, const PassForecast& forecast, int memory_pp);

// Picture of a forecast by passes. O(passes log passes).
std::shared_ptr<const StepPicture> PictureOf(const ModelSpec& model, const PassForecast& forecast,
                                             int memory_pp, std::int64_t device_bytes,
                                             std::string label);
// Picture of a forecast op by op, with a timeline: the last step of the first rank of each stage.
std::shared_ptr<const StepPicture> PictureOf(const ModelSpec& model, Forecast forecast,
                                             std::int64_t device_bytes, std::string label);

}  // namespace foretrain::ui
