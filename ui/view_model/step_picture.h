// A forecast of passes, or of ops, as the timeline and memory that the lanes of the desktop draw: a
// lane a pipeline stage. Leaves out figures (what_if.h) and pixels.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/search/pass_forecast.h"
#include "sim/search/search.h"
#include "ui/view_model/compare_model.h"

namespace foretrain::ui {

// Stands where it was made: the model refers to the input.
struct StepPicture {
  StepPicture() = default;
  StepPicture(const StepPicture&) = delete;
  StepPicture& operator=(const StepPicture&) = delete;

  CompareInput input;       // the forecast alone
  CompareModel model;       // of `input`
  std::vector<int> stages;  // [lane]: its pipeline rank
};

// The spans of the passes of a forecast, which has passes: rank is the pipeline rank; behind them
// its sums and update. Memory is that of stage `memory_pp`, instruction by instruction: those of a
// pass share its time evenly.
Timeline TimelineOf(const ModelSpec& model, const PassForecast& forecast, int memory_pp);

// Of passes. O(passes log passes).
std::shared_ptr<const StepPicture> PictureOf(const ModelSpec& model, const PassForecast& forecast,
                                             int memory_pp, std::int64_t device_bytes,
                                             std::string label);
// Of a forecast op by op, with a timeline: the last step of the first rank of each stage.
std::shared_ptr<const StepPicture> PictureOf(const ModelSpec& model, Forecast forecast,
                                             std::int64_t device_bytes, std::string label);

}  // namespace foretrain::ui
