#include "profiler/cuda/counter_config.h"

#if FT_HAVE_PM_SAMPLING
#include <cstdio>

namespace foretrain {

CounterConfig::~CounterConfig() { Release(); }

// Errors are ignored: nothing uses the object any more.
void CounterConfig::Release() {
  if (host_ == nullptr) return;
  FT_CUPTI_PARAMS(CUpti_Profiler_Host_Deinitialize_Params, end);
  end.pHostObject = host_;
  static_cast<void>(table_.ProfilerHostDeinitialize(&end));
  host_ = nullptr;
}

bool CounterConfig::Reset(const char* chip, std::span<const std::uint8_t> availability, char* why,
                          std::size_t n) {
  Release();
  FT_CUPTI_PARAMS(CUpti_Profiler_Host_Initialize_Params, begin);
  begin.profilerType = CUPTI_PROFILER_TYPE_PM_SAMPLING;
  begin.pChipName = chip;
  begin.pCounterAvailabilityImage = availability.empty() ? nullptr : availability.data();
  if (!CheckSampling(table_, table_.ProfilerHostInitialize(&begin), "prepare counters", why, n)) {
    return false;
  }
  host_ = begin.pHostObject;
  return true;
}

bool CounterConfig::Plan(std::size_t& passes, char* why, std::size_t n) {
  FT_CUPTI_PARAMS(CUpti_Profiler_Host_ConfigAddMetrics_Params, add);
  add.pHostObject = host_;
  add.ppMetricNames = metrics_.data();
  add.numMetrics = metrics_.size();
  FT_CUPTI_PARAMS(CUpti_Profiler_Host_GetConfigImageSize_Params, size);
  size.pHostObject = host_;
  if (!CheckSampling(table_, table_.ProfilerHostConfigAddMetrics(&add), "add counters", why, n) ||
      !CheckSampling(table_, table_.ProfilerHostGetConfigImageSize(&size), "plan counters", why,
                     n)) {
    return false;
  }
  image_.assign(size.configImageSize, 0);
  FT_CUPTI_PARAMS(CUpti_Profiler_Host_GetConfigImage_Params, image);
  image.pHostObject = host_;
  image.configImageSize = image_.size();
  image.pConfigImage = image_.data();
  FT_CUPTI_PARAMS(CUpti_Profiler_Host_GetNumOfPasses_Params, count);
  count.configImageSize = image_.size();
  count.pConfigImage = image_.data();
  if (!CheckSampling(table_, table_.ProfilerHostGetConfigImage(&image), "plan counters", why, n) ||
      !CheckSampling(table_, table_.ProfilerHostGetNumOfPasses(&count), "count passes", why, n)) {
    return false;
  }
  passes = count.numOfPasses;
  return true;
}

// Each try needs a fresh object: CUPTI's refuses all further metrics after an unknown one, and
// metrics of separate calls never share a pass. A counter that was refused leaves its reason in
// `why`, which counts only if none is left.
bool CounterConfig::Choose(const char* chip, std::span<const std::uint8_t> availability, char* why,
                           std::size_t n) {
  std::snprintf(why, n, "CUPTI: no counter of chip %s fits into one pass", chip);
  for (const HardwareCounter& counter : kHardwareCounters) {
    if (!Reset(chip, availability, why, n)) return false;
    metrics_.push_back(counter.metric);
    std::size_t passes = 0;
    if (Plan(passes, why, n) && passes == 1) {
      counters_.push_back(counter);
    } else {
      metrics_.pop_back();
    }
  }
  if (counters_.empty()) return false;
  std::size_t passes = 0;
  return Reset(chip, availability, why, n) && Plan(passes, why, n);
}

bool CounterConfig::Evaluate(std::span<const std::uint8_t> decoded, std::size_t index,
                             std::vector<double>& values, char* why, std::size_t n) {
  values.assign(metrics_.size(), 0.0);
  FT_CUPTI_PARAMS(CUpti_Profiler_Host_EvaluateToGpuValues_Params, evaluate);
  evaluate.pHostObject = host_;
  evaluate.pCounterDataImage = decoded.data();
  evaluate.counterDataImageSize = decoded.size();
  evaluate.rangeIndex = index;
  evaluate.ppMetricNames = metrics_.data();
  evaluate.numMetrics = metrics_.size();
  evaluate.pMetricValues = values.data();
  if (!CheckSampling(table_, table_.ProfilerHostEvaluateToGpuValues(&evaluate), "compute counters",
                     why, n)) {
    return false;
  }
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= counters_[i].scale;
  return true;
}

}  // namespace foretrain
#endif
