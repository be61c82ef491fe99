// Forecasts a published run: step time in closed form, peak memory and whether it fits. score.h
// compares the forecast with the measurement.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/forecast/forecast.h"
#include "sim/learn/learn.h"
#include "sim/validate/run_case.h"

namespace foretrain {

// Memory of a published run, as its source would state it.
struct StatedMemory {
  std::int64_t stated = 0;  // bytes, on the rank and with the parts that the source counts
  bool fits = false;        // by DeviceUse of the fullest rank
};

// Memory of a valid plan. Without a caching allocator, the tensors represent what it holds. O(ops
// of 2 pp micro-batches of the stages that FullestDeviceOf examines).
StatedMemory StatedMemoryOf(const ModelSpec& model, const Plan& plan, const SystemOptions& system,
                            const ClusterSpec& cluster);

struct RunPrediction {
  double step_s = 0;
  ForecastInterval interval;  // interval around step_s
  double peak_gib = 0;        // on the rank and with the parts that the source counts
  bool fits = false;
  Plan plan;  // the plan that was forecast
  std::string preset;
  std::vector<std::string> open;    // fields that the row leaves open and a search chose
  std::vector<std::string> filled;  // as in RunCase
  std::string refused;              // reason for which there is no forecast; empty: there is one
};

// Forecasts `run`. A row may allow several plans: the result is the fastest that fits, or the
// smallest if none fits. A row that cannot be forecast has the reason in `refused`.
//
// Step time comes from an Evaluator with the profile of the device and the preset's system
// (DeriveProfile). With `learned`, its constants are moved. The measured values of the row are not
// used. O(plans * blocks); safe from any thread.
RunPrediction PredictRun(const PublishedRun& run, const CaseSources& sources,
                         const Learned* learned = nullptr);

}  // namespace foretrain
