// The samples of a device, of the tests' libcupti. The share of active multiprocessors is that of
// the kernels which the tests' CUDA runtime ran; other counters have a constant each.
#include "tests/plugins/fake_sampling.h"

#if FT_HAVE_PM_SAMPLING
#include <time.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

// CUPTI keeps it to itself.
struct CUpti_PmSampling_Object {
  std::size_t device = 0;
  std::vector<std::string> metrics;  // empty: not configured
  std::uint64_t interval_ns = 0;
  bool running = false;
  std::uint64_t next_ns = 0;  // start of the next sample
  std::uint64_t stopped_ns = 0;
};

namespace foretrain {
namespace {

std::map<std::size_t, std::unique_ptr<CUpti_PmSampling_Object>> samplers;  // by device
bool initialized = false;

bool IsSampler(const CUpti_PmSampling_Object* object) {
  return std::any_of(samplers.begin(), samplers.end(),
                     [&](const auto& one) { return one.second.get() == object; });
}

std::uint64_t NowOf(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// CLOCK_REALTIME minus CLOCK_MONOTONIC, by the narrowest of many readings.
std::uint64_t RealtimeAhead() {
  std::uint64_t ahead = 0, narrowest = UINT64_MAX;
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t before = NowOf(CLOCK_MONOTONIC), realtime = NowOf(CLOCK_REALTIME);
    const std::uint64_t width = NowOf(CLOCK_MONOTONIC) - before;
    if (width >= narrowest) continue;
    narrowest = width;
    ahead = realtime - (before + width / 2);
  }
  return ahead;
}

// Percent of [start, start + length) in which a kernel ran.
double ActivePercent(std::size_t device, std::uint64_t start_ns, std::uint64_t length_ns) {
  std::uint64_t busy_ns = 0;
  for (const FakeCupti::Busy& busy : TheFake().busy) {
    if (busy.device != device) continue;
    const std::uint64_t from = std::max(busy.start_ns, start_ns);
    const std::uint64_t to = std::min(busy.end_ns, start_ns + length_ns);
    if (to > from) busy_ns += to - from;
  }
  return std::min(100.0, 100.0 * static_cast<double>(busy_ns) / static_cast<double>(length_ns));
}

// Appends a sample to the image.
void Add(std::uint8_t* image, const CUpti_PmSampling_Object& object) {
  ImageHead head = HeadOf(image);
  std::vector<std::uint64_t> words;
  static const std::uint64_t realtime_ahead = RealtimeAhead();
  const std::uint64_t shift = TheFake().realtime_samples ? realtime_ahead : 0;
  words.push_back(object.next_ns + shift);
  words.push_back(object.next_ns + object.interval_ns + shift);
  for (std::size_t i = 0; i < object.metrics.size(); ++i) {
    const bool active = object.metrics[i].rfind("sm__cycles_active", 0) == 0;
    const double value = active ? ActivePercent(object.device, object.next_ns, object.interval_ns)
                                : static_cast<double>(i);
    words.emplace_back();
    std::memcpy(&words.back(), &value, sizeof value);
  }
  std::memcpy(const_cast<std::uint8_t*>(SampleOf(image, head.samples)), words.data(),
              head.SampleBytes());
  ++head.samples;
  std::memcpy(image, &head, sizeof head);
}

}  // namespace

extern "C" {

FT_EXPORT CUptiResult cuptiProfilerInitialize(CUpti_Profiler_Initialize_Params* params) {
  const FakeLock lock(TheFakeMutex());
  initialized = true;
  return First({Told("ProfilerInitialize"), FT_CHECKED(CUpti_Profiler_Initialize_Params)});
}
FT_EXPORT CUptiResult cuptiDeviceGetChipName(CUpti_Device_GetChipName_Params* params) {
  const FakeLock lock(TheFakeMutex());
  params->pChipName = TheFake().chip.c_str();
  return First({Told("DeviceGetChipName"), FT_CHECKED(CUpti_Device_GetChipName_Params),
                Good(initialized, CUPTI_ERROR_NOT_INITIALIZED)});
}
FT_EXPORT CUptiResult
cuptiPmSamplingGetCounterAvailability(CUpti_PmSampling_GetCounterAvailability_Params* params) {
  const FakeLock lock(TheFakeMutex());
  const CUptiResult result = First({Told("PmSamplingGetCounterAvailability"),
                                    FT_CHECKED(CUpti_PmSampling_GetCounterAvailability_Params),
                                    Good(initialized, CUPTI_ERROR_NOT_INITIALIZED)});
  if (result != CUPTI_SUCCESS) return result;
  if (params->pCounterAvailabilityImage == nullptr) {
    params->counterAvailabilityImageSize = sizeof kAvailability;
    return CUPTI_SUCCESS;
  }
  if (params->counterAvailabilityImageSize != sizeof kAvailability) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  std::memcpy(params->pCounterAvailabilityImage, kAvailability, sizeof kAvailability);
  return CUPTI_SUCCESS;
}

FT_EXPORT CUptiResult cuptiPmSamplingEnable(CUpti_PmSampling_Enable_Params* params) {
  const FakeLock lock(TheFakeMutex());
  const CUptiResult result =
      First({Told("PmSamplingEnable"), FT_CHECKED(CUpti_PmSampling_Enable_Params),
             Good(initialized, CUPTI_ERROR_NOT_INITIALIZED),
             Good(samplers.count(params->deviceIndex) == 0, CUPTI_ERROR_INVALID_OPERATION)});
  if (result != CUPTI_SUCCESS) return result;
  auto& object = samplers[params->deviceIndex];
  object = std::make_unique<CUpti_PmSampling_Object>();
  object->device = params->deviceIndex;
  params->pPmSamplingObject = object.get();
  return CUPTI_SUCCESS;
}
FT_EXPORT CUptiResult cuptiPmSamplingDisable(CUpti_PmSampling_Disable_Params* params) {
  const FakeLock lock(TheFakeMutex());
  const CUptiResult result = First(
      {FT_CHECKED(CUpti_PmSampling_Disable_Params), Good(IsSampler(params->pPmSamplingObject))});
  if (result != CUPTI_SUCCESS) return result;
  samplers.erase(params->pPmSamplingObject->device);
  return CUPTI_SUCCESS;
}
FT_EXPORT CUptiResult cuptiPmSamplingSetConfig(CUpti_PmSampling_SetConfig_Params* params) {
  const FakeLock lock(TheFakeMutex());
  const CUptiResult result =
      First({Told("PmSamplingSetConfig"), FT_CHECKED(CUpti_PmSampling_SetConfig_Params),
             Good(IsSampler(params->pPmSamplingObject)), Good(params->samplingInterval > 0),
             Good(params->hardwareBufferSize > 0)});
  if (result != CUPTI_SUCCESS) return result;
  // GA100 counts cycles alone.
  const bool time = params->triggerMode == CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL;
  const auto metrics = MetricsOf(params->pConfig, params->configSize);
  if (metrics.empty() || metrics.size() > TheFake().counters_a_pass ||
      time == (TheFake().chip == "GA100")) {
    return CUPTI_ERROR_NOT_SUPPORTED;
  }
  params->pPmSamplingObject->metrics = metrics;
  params->pPmSamplingObject->interval_ns = params->samplingInterval;
  return CUPTI_SUCCESS;
}
FT_EXPORT CUptiResult
cuptiPmSamplingGetCounterDataSize(CUpti_PmSampling_GetCounterDataSize_Params* params) {
  const FakeLock lock(TheFakeMutex());
  const CUptiResult result = First({Told("PmSamplingGetCounterDataSize"),
                                    FT_CHECKED(CUpti_PmSampling_GetCounterDataSize_Params),
                                    Good(IsSampler(params->pPmSamplingObject)),
                                    Good(params->numMetrics > 0 && params->maxSamples > 0)});
  if (result != CUPTI_SUCCESS) return result;
  const ImageHead head{.metrics = params->numMetrics, .room = params->maxSamples};
  params->counterDataSize = sizeof head + head.room * head.SampleBytes();
  return CUPTI_SUCCESS;
}
FT_EXPORT CUptiResult cuptiPmSamplingCounterDataImageInitialize(
    CUpti_PmSampling_CounterDataImage_Initialize_Params* params) {
  const FakeLock lock(TheFakeMutex());
  const CUptiResult result = First({Told("PmSamplingCounterDataImageInitialize"),
                                    FT_CHECKED(CUpti_PmSampling_CounterDataImage_Initialize_Params),
                                    Good(IsSampler(params->pPmSamplingObject))});
  if (result != CUPTI_SUCCESS) return result;
  ImageHead head{.metrics = params->pPmSamplingObject->metrics.size()};
  head.room = (params->counterDataSize - sizeof head) / head.SampleBytes();
  std::memcpy(params->pCounterData, &head, sizeof head);
  return Good(IsImage(params->pCounterData, params->counterDataSize));
}
FT_EXPORT CUptiResult cuptiPmSamplingStart(CUpti_PmSampling_Start_Params* params) {
  const FakeLock lock(TheFakeMutex());
  CUpti_PmSampling_Object* const object = params->pPmSamplingObject;
  const CUptiResult result = First(
      {Told("PmSamplingStart"), FT_CHECKED(CUpti_PmSampling_Start_Params), Good(IsSampler(object)),
       Good(!object->running && !object->metrics.empty(), CUPTI_ERROR_INVALID_OPERATION)});
  if (result != CUPTI_SUCCESS) return result;
  object->running = true;
  object->next_ns = NowOf(CLOCK_MONOTONIC);
  return CUPTI_SUCCESS;
}
FT_EXPORT CUptiResult cuptiPmSamplingStop(CUpti_PmSampling_Stop_Params* params) {
  const FakeLock lock(TheFakeMutex());
  CUpti_PmSampling_Object* const object = params->pPmSamplingObject;
  const CUptiResult result =
      First({Told("PmSamplingStop"), FT_CHECKED(CUpti_PmSampling_Stop_Params),
             Good(IsSampler(object)), Good(object->running, CUPTI_ERROR_INVALID_OPERATION)});
  if (result != CUPTI_SUCCESS) return result;
  object->running = false;
  object->stopped_ns = NowOf(CLOCK_MONOTONIC);
  return CUPTI_SUCCESS;
}
// Completes the samples that have ended by now, or by the stop.
FT_EXPORT CUptiResult cuptiPmSamplingDecodeData(CUpti_PmSampling_DecodeData_Params* params) {
  const FakeLock lock(TheFakeMutex());
  CUpti_PmSampling_Object* const object = params->pPmSamplingObject;
  const CUptiResult result =
      First({Told("PmSamplingDecodeData"), FT_CHECKED(CUpti_PmSampling_DecodeData_Params),
             Good(IsSampler(object)), Good(object->next_ns > 0, CUPTI_ERROR_INVALID_OPERATION),
             Good(IsImage(params->pCounterDataImage, params->counterDataImageSize))});
  if (result != CUPTI_SUCCESS) return result;
  params->overflow = TheFake().overflow ? 1 : 0;
  params->decodeStopReason = CUPTI_PM_SAMPLING_DECODE_STOP_REASON_END_OF_RECORDS;
  const std::uint64_t until_ns = object->running ? NowOf(CLOCK_MONOTONIC) : object->stopped_ns;
  for (; object->next_ns + object->interval_ns <= until_ns;
       object->next_ns += object->interval_ns) {
    const ImageHead head = HeadOf(params->pCounterDataImage);
    if (head.samples == head.room) {
      params->decodeStopReason = CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL;
      break;
    }
    Add(params->pCounterDataImage, *object);
  }
  return CUPTI_SUCCESS;
}
FT_EXPORT CUptiResult
cuptiPmSamplingGetCounterDataInfo(CUpti_PmSampling_GetCounterDataInfo_Params* params) {
  const FakeLock lock(TheFakeMutex());
  const CUptiResult result = First(
      {Told("PmSamplingGetCounterDataInfo"), FT_CHECKED(CUpti_PmSampling_GetCounterDataInfo_Params),
       Good(IsImage(params->pCounterDataImage, params->counterDataImageSize))});
  if (result != CUPTI_SUCCESS) return result;
  const ImageHead head = HeadOf(params->pCounterDataImage);
  params->numTotalSamples = head.room;
  params->numPopulatedSamples = params->numCompletedSamples = head.samples;
  return CUPTI_SUCCESS;
}
FT_EXPORT CUptiResult
cuptiPmSamplingCounterDataGetSampleInfo(CUpti_PmSampling_CounterData_GetSampleInfo_Params* params) {
  const FakeLock lock(TheFakeMutex());
  const CUptiResult result =
      First({Told("PmSamplingCounterDataGetSampleInfo"),
             FT_CHECKED(CUpti_PmSampling_CounterData_GetSampleInfo_Params),
             Good(IsSampler(params->pPmSamplingObject)),
             Good(IsImage(params->pCounterDataImage, params->counterDataImageSize))});
  if (result != CUPTI_SUCCESS) return result;
  if (params->sampleIndex >= HeadOf(params->pCounterDataImage).samples) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  const std::uint8_t* const sample = SampleOf(params->pCounterDataImage, params->sampleIndex);
  std::memcpy(&params->startTimestamp, sample, sizeof(std::uint64_t));
  std::memcpy(&params->endTimestamp, sample + sizeof(std::uint64_t), sizeof(std::uint64_t));
  params->startTimestamp += TheFake().sample_shift_ns;
  return CUPTI_SUCCESS;
}
}  // extern "C"

}  // namespace foretrain
#endif
