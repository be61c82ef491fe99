// The counters of a chip, of the tests' libcupti: they need no GPU.
#include "tests/plugins/fake_sampling.h"

#if FT_HAVE_PM_SAMPLING
#include <map>
#include <memory>

// CUPTI keeps it to itself.
struct CUpti_Profiler_Host_Object {
  std::string chip;
  std::vector<std::string> metrics;
  bool refused = false;  // an unknown metric was added
};

namespace foretrain {
namespace {

std::map<CUpti_Profiler_Host_Object*, std::unique_ptr<CUpti_Profiler_Host_Object>> hosts;

bool IsHost(CUpti_Profiler_Host_Object* host) { return hosts.count(host) > 0; }

// As libcupti 13.0 has them: GB202 has no NVLink.
bool Has(const std::string& chip, const std::string& metric) {
  for (const char* known :
       {"sm__cycles_active.avg", "sm__inst_executed_realtime.avg",
        "sm__pipe_tensor_cycles_active_realtime.avg", "dram__read_throughput.avg",
        "dram__write_throughput.avg", "pcie__read_bytes.sum", "pcie__write_bytes.sum"}) {
    if (metric.rfind(known, 0) == 0) return true;
  }
  return chip != "GB202" && metric.rfind("nvl", 0) == 0;
}

}  // namespace

extern "C" {
FT_EXPORT CUptiResult cuptiProfilerHostInitialize(CUpti_Profiler_Host_Initialize_Params* params) {
  const FakeLock lock(TheFakeMutex());
  const std::uint8_t* const available = params->pCounterAvailabilityImage;
  const CUptiResult result =
      First({Told("ProfilerHostInitialize"), FT_CHECKED(CUpti_Profiler_Host_Initialize_Params),
             Good(params->profilerType == CUPTI_PROFILER_TYPE_PM_SAMPLING &&
                  params->pChipName != nullptr),
             Good(available == nullptr ||
                  std::memcmp(available, kAvailability, sizeof kAvailability) == 0)});
  if (result != CUPTI_SUCCESS) return result;
  auto host = std::make_unique<CUpti_Profiler_Host_Object>();
  host->chip = params->pChipName;
  params->pHostObject = host.get();
  hosts[params->pHostObject] = std::move(host);
  return CUPTI_SUCCESS;
}
FT_EXPORT CUptiResult
cuptiProfilerHostDeinitialize(CUpti_Profiler_Host_Deinitialize_Params* params) {
  const FakeLock lock(TheFakeMutex());
  return First({FT_CHECKED(CUpti_Profiler_Host_Deinitialize_Params),
                Good(hosts.erase(params->pHostObject) == 1)});
}
FT_EXPORT CUptiResult
cuptiProfilerHostConfigAddMetrics(CUpti_Profiler_Host_ConfigAddMetrics_Params* params) {
  const FakeLock lock(TheFakeMutex());
  const CUptiResult result = First({Told("ProfilerHostConfigAddMetrics"),
                                    FT_CHECKED(CUpti_Profiler_Host_ConfigAddMetrics_Params),
                                    Good(IsHost(params->pHostObject))});
  if (result != CUPTI_SUCCESS) return result;
  CUpti_Profiler_Host_Object& host = *params->pHostObject;
  if (host.refused) return CUPTI_ERROR_UNKNOWN;
  for (std::size_t i = 0; i < params->numMetrics; ++i) {
    host.refused = host.refused || !Has(host.chip, params->ppMetricNames[i]);
    host.metrics.emplace_back(params->ppMetricNames[i]);
  }
  return Good(!host.refused);
}
FT_EXPORT CUptiResult
cuptiProfilerHostGetConfigImageSize(CUpti_Profiler_Host_GetConfigImageSize_Params* params) {
  const FakeLock lock(TheFakeMutex());
  const CUptiResult result = First({Told("ProfilerHostGetConfigImageSize"),
                                    FT_CHECKED(CUpti_Profiler_Host_GetConfigImageSize_Params),
                                    Good(IsHost(params->pHostObject))});
  if (result != CUPTI_SUCCESS) return result;
  params->configImageSize = PlanOf(params->pHostObject->metrics).size();
  return CUPTI_SUCCESS;
}
FT_EXPORT CUptiResult
cuptiProfilerHostGetConfigImage(CUpti_Profiler_Host_GetConfigImage_Params* params) {
  const FakeLock lock(TheFakeMutex());
  const CUptiResult result = First({Told("ProfilerHostGetConfigImage"),
                                    FT_CHECKED(CUpti_Profiler_Host_GetConfigImage_Params),
                                    Good(IsHost(params->pHostObject))});
  if (result != CUPTI_SUCCESS) return result;
  const std::string plan = PlanOf(params->pHostObject->metrics);
  if (params->configImageSize != plan.size()) return CUPTI_ERROR_INVALID_PARAMETER;
  std::memcpy(params->pConfigImage, plan.data(), plan.size());
  return CUPTI_SUCCESS;
}
FT_EXPORT CUptiResult
cuptiProfilerHostGetNumOfPasses(CUpti_Profiler_Host_GetNumOfPasses_Params* params) {
  const FakeLock lock(TheFakeMutex());
  const std::size_t metrics = MetricsOf(params->pConfigImage, params->configImageSize).size();
  const std::size_t a_pass = TheFake().counters_a_pass;
  params->numOfPasses = (metrics + a_pass - 1) / a_pass;
  return First({Told("ProfilerHostGetNumOfPasses"),
                FT_CHECKED(CUpti_Profiler_Host_GetNumOfPasses_Params), Good(metrics > 0)});
}
FT_EXPORT CUptiResult
cuptiProfilerHostEvaluateToGpuValues(CUpti_Profiler_Host_EvaluateToGpuValues_Params* params) {
  const FakeLock lock(TheFakeMutex());
  const CUptiResult result =
      First({Told("ProfilerHostEvaluateToGpuValues"),
             FT_CHECKED(CUpti_Profiler_Host_EvaluateToGpuValues_Params),
             Good(IsHost(params->pHostObject)),
             Good(IsImage(params->pCounterDataImage, params->counterDataImageSize))});
  if (result != CUPTI_SUCCESS) return result;
  const ImageHead head = HeadOf(params->pCounterDataImage);
  const CUpti_Profiler_Host_Object& host = *params->pHostObject;
  if (params->rangeIndex >= head.samples || params->numMetrics != head.metrics) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  for (std::size_t i = 0; i < head.metrics; ++i) {
    if (host.metrics[i] != params->ppMetricNames[i]) return CUPTI_ERROR_INVALID_METRIC_NAME;
  }
  std::memcpy(params->pMetricValues,
              SampleOf(params->pCounterDataImage, params->rangeIndex) + 2 * sizeof(std::uint64_t),
              head.metrics * sizeof(double));
  return CUPTI_SUCCESS;
}

}  // extern "C"

}  // namespace foretrain
#endif
