#include "profiler/cuda/counter_sampler.h"

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string_view>

namespace foretrain {

#if FT_HAVE_PM_SAMPLING
namespace {

// A drain every 100 ms leaves at most 1,000 samples of 100 us. A full image is emptied and filled
// again.
constexpr std::uint32_t kSamplesOfAnImage = 1'024;
// Raw samples until they are decoded. CUPTI's own Python package takes 512 MiB for samples of
// 10 us; ours are ten times as rare at least.
constexpr std::size_t kHardwareBufferBytes = std::size_t{128} << 20;
constexpr std::int64_t kHourNs = 3'600'000'000'000;

std::int64_t NowOf(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// CLOCK_REALTIME minus CLOCK_MONOTONIC, by the narrowest of five readings: a thread that loses its
// processor between two clocks would move all samples.
std::int64_t RealtimeAhead() {
  std::int64_t ahead_ns = 0, narrowest_ns = INT64_MAX;
  for (int i = 0; i < 5; ++i) {
    const std::int64_t before_ns = NowOf(CLOCK_MONOTONIC), realtime_ns = NowOf(CLOCK_REALTIME);
    const std::int64_t width_ns = NowOf(CLOCK_MONOTONIC) - before_ns;
    if (width_ns >= narrowest_ns) continue;
    narrowest_ns = width_ns;
    ahead_ns = realtime_ns - (before_ns + width_ns / 2);
  }
  return ahead_ns;
}

// The header of cuptiPmSamplingSetConfig: these chips count cycles of the system clock, which
// varies, instead of nanoseconds.
bool CountsCycles(std::string_view chip) { return chip.starts_with("TU") || chip == "GA100"; }

}  // namespace

bool ToMonotonic(std::int64_t monotonic_now_ns, std::int64_t realtime_now_ns,
                 std::int64_t& time_ns) {
  const auto distance = [&](std::int64_t now_ns) {
    return std::max(now_ns, time_ns) - std::min(now_ns, time_ns);
  };
  const bool is_realtime = distance(realtime_now_ns) < distance(monotonic_now_ns);
  if (is_realtime) time_ns -= realtime_now_ns - monotonic_now_ns;
  return distance(monotonic_now_ns) < kHourNs;
}

// Errors are ignored: the process ends, or the device was never opened whole.
DeviceSampler::~DeviceSampler() {
  if (object_ == nullptr) return;
  char why[256];
  if (running_) static_cast<void>(Stop(why, sizeof why));
  FT_CUPTI_PARAMS(CUpti_PmSampling_Disable_Params, disable);
  disable.pPmSamplingObject = object_;
  static_cast<void>(table_.PmSamplingDisable(&disable));
}

// The driver's permission is first asked for by the availability of counters.
bool DeviceSampler::Open(std::int64_t interval_ns, char* why, std::size_t n) {
  FT_CUPTI_PARAMS(CUpti_Profiler_Initialize_Params, begin);
  FT_CUPTI_PARAMS(CUpti_Device_GetChipName_Params, chip);
  chip.deviceIndex = static_cast<std::size_t>(device_);
  FT_CUPTI_PARAMS(CUpti_PmSampling_GetCounterAvailability_Params, available);
  available.deviceIndex = chip.deviceIndex;
  const char* const what = "ask for counters";
  if (!CheckSampling(table_, table_.ProfilerInitialize(&begin), "begin", why, n) ||
      !CheckSampling(table_, table_.DeviceGetChipName(&chip), "name the chip", why, n) ||
      !CheckSampling(table_, table_.PmSamplingGetCounterAvailability(&available), what, why, n)) {
    return false;
  }
  std::vector<std::uint8_t> availability(available.counterAvailabilityImageSize);
  available.pCounterAvailabilityImage = availability.data();
  if (!CheckSampling(table_, table_.PmSamplingGetCounterAvailability(&available), what, why, n) ||
      !config_.Choose(chip.pChipName, availability, why, n)) {
    return false;
  }
  FT_CUPTI_PARAMS(CUpti_PmSampling_Enable_Params, enable);
  enable.deviceIndex = chip.deviceIndex;
  if (!CheckSampling(table_, table_.PmSamplingEnable(&enable), "enable sampling", why, n)) {
    return false;
  }
  object_ = enable.pPmSamplingObject;
  return Configure(chip.pChipName, interval_ns, why, n) && MakeImage(why, n);
}

// A full buffer is an error: samples are never overwritten. A cycle is taken for 1 ns, so a chip
// that counts cycles samples up to twice as often as asked.
bool DeviceSampler::Configure(const char* chip, std::int64_t interval_ns, char* why,
                              std::size_t n) {
  FT_CUPTI_PARAMS(CUpti_PmSampling_SetConfig_Params, config);
  config.pPmSamplingObject = object_;
  config.configSize = config_.image().size();
  config.pConfig = config_.image().data();
  config.hardwareBufferSize = kHardwareBufferBytes;
  config.samplingInterval = static_cast<std::uint64_t>(interval_ns);
  config.triggerMode = CountsCycles(chip) ? CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_SYSCLK_INTERVAL
                                          : CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL;
  return CheckSampling(table_, table_.PmSamplingSetConfig(&config), "set the interval", why, n);
}

bool DeviceSampler::MakeImage(char* why, std::size_t n) {
  FT_CUPTI_PARAMS(CUpti_PmSampling_GetCounterDataSize_Params, size);
  size.pPmSamplingObject = object_;
  size.pMetricNames = config_.metrics().data();
  size.numMetrics = config_.metrics().size();
  size.maxSamples = kSamplesOfAnImage;
  if (!CheckSampling(table_, table_.PmSamplingGetCounterDataSize(&size), "size samples", why, n)) {
    return false;
  }
  image_.assign(size.counterDataSize, 0);
  return ClearImage(why, n);
}

bool DeviceSampler::ClearImage(char* why, std::size_t n) {
  FT_CUPTI_PARAMS(CUpti_PmSampling_CounterDataImage_Initialize_Params, clear);
  clear.pPmSamplingObject = object_;
  clear.counterDataSize = image_.size();
  clear.pCounterData = image_.data();
  return CheckSampling(table_, table_.PmSamplingCounterDataImageInitialize(&clear), "clear samples",
                       why, n);
}

bool DeviceSampler::Start(char* why, std::size_t n) {
  FT_CUPTI_PARAMS(CUpti_PmSampling_Start_Params, start);
  start.pPmSamplingObject = object_;
  running_ = CheckSampling(table_, table_.PmSamplingStart(&start), "start sampling", why, n);
  return running_;
}

bool DeviceSampler::Stop(char* why, std::size_t n) {
  if (!running_) return true;
  running_ = false;
  FT_CUPTI_PARAMS(CUpti_PmSampling_Stop_Params, stop);
  stop.pPmSamplingObject = object_;
  return CheckSampling(table_, table_.PmSamplingStop(&stop), "stop sampling", why, n);
}

// A decoding fills the image at most; the rest stays in the GPU's buffer for the next one.
bool DeviceSampler::Drain(std::vector<FtCounterSample>& out, char* why, std::size_t n) {
  for (;;) {
    FT_CUPTI_PARAMS(CUpti_PmSampling_DecodeData_Params, decode);
    decode.pPmSamplingObject = object_;
    decode.pCounterDataImage = image_.data();
    decode.counterDataImageSize = image_.size();
    CUptiResult result = table_.PmSamplingDecodeData(&decode);
    if (result == CUPTI_SUCCESS && decode.overflow != 0) result = CUPTI_ERROR_OUT_OF_MEMORY;
    if (!CheckSampling(table_, result, "decode samples", why, n) || !Read(out, why, n) ||
        !ClearImage(why, n)) {
      return false;
    }
    if (decode.decodeStopReason != CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL) {
      return true;
    }
  }
}

bool DeviceSampler::Read(std::vector<FtCounterSample>& out, char* why, std::size_t n) {
  FT_CUPTI_PARAMS(CUpti_PmSampling_GetCounterDataInfo_Params, info);
  info.pCounterDataImage = image_.data();
  info.counterDataImageSize = image_.size();
  if (!CheckSampling(table_, table_.PmSamplingGetCounterDataInfo(&info), "count samples", why, n)) {
    return false;
  }
  const std::int64_t monotonic_ns = NowOf(CLOCK_MONOTONIC);
  const std::int64_t realtime_ns = monotonic_ns + RealtimeAhead();
  for (std::size_t i = 0; i < info.numCompletedSamples; ++i) {
    FT_CUPTI_PARAMS(CUpti_PmSampling_CounterData_GetSampleInfo_Params, sample);
    sample.pPmSamplingObject = object_;
    sample.pCounterDataImage = image_.data();
    sample.counterDataImageSize = image_.size();
    sample.sampleIndex = i;
    if (!CheckSampling(table_, table_.PmSamplingCounterDataGetSampleInfo(&sample),
                       "read the time of a sample", why, n) ||
        !config_.Evaluate(image_, i, values_, why, n)) {
      return false;
    }
    auto start_ns = static_cast<std::int64_t>(sample.startTimestamp);
    if (!ToMonotonic(monotonic_ns, realtime_ns, start_ns)) {
      std::snprintf(why, n, "CUPTI: samples have times of no clock of this machine");
      return false;
    }
    for (std::size_t k = 0; k < values_.size(); ++k) {
      out.push_back({start_ns, values_[k], config_.counters()[k].name, device_});
    }
  }
  return true;
}

FtStatus CounterSampler::Open(void* library, std::span<const std::int32_t> devices,
                              std::int64_t interval_ns, char* why, std::size_t n) noexcept {
  if (was_opened_) {
    std::snprintf(why, n, "counters were sampled by an earlier run of this process");
    return FT_UNSUPPORTED;
  }
  was_opened_ = true;
  try {
    if (!FindSampling(library, table_, why, n)) return FT_UNSUPPORTED;
    for (const std::int32_t device : devices) {
      devices_.push_back(std::make_unique<DeviceSampler>(table_, device));
      if (devices_.back()->Open(interval_ns, why, n)) continue;
      devices_.clear();
      return FT_UNSUPPORTED;
    }
    return FT_OK;
  } catch (...) {
    devices_.clear();
    std::snprintf(why, n, "CUPTI: out of host memory");
    return FT_OUT_OF_MEMORY;
  }
}

FtStatus CounterSampler::Start(char* why, std::size_t n) noexcept {
  for (const auto& device : devices_) {
    if (!device->Start(why, n)) return FT_FAILED;
  }
  return FT_OK;
}

// Stops all devices, also if one of them fails.
FtStatus CounterSampler::Stop(char* why, std::size_t n) noexcept {
  bool stopped = true;
  for (const auto& device : devices_) stopped = device->Stop(why, n) && stopped;
  return stopped ? FT_OK : FT_FAILED;
}

// Values that were decoded before go first. Devices are asked only once those are gone.
FtStatus CounterSampler::Drain(FtCounterSample* out, std::int64_t capacity, std::int64_t* count,
                               char* why, std::size_t n) noexcept {
  *count = 0;
  try {
    if (waiting_.empty()) {
      for (const auto& device : devices_) {
        if (!device->Drain(waiting_, why, n)) return FT_FAILED;
      }
    }
    *count = std::min(capacity, static_cast<std::int64_t>(waiting_.size()));
    std::copy_n(waiting_.begin(), *count, out);
    waiting_.erase(waiting_.begin(), waiting_.begin() + *count);
    return FT_OK;
  } catch (...) {
    std::snprintf(why, n, "CUPTI: out of host memory");
    return FT_OUT_OF_MEMORY;
  }
}

#else

FtStatus CounterSampler::Open(void*, std::span<const std::int32_t>, std::int64_t, char* why,
                              std::size_t n) noexcept {
  std::snprintf(why, n,
                "this plugin was built with the CUPTI of CUDA before 12.6; build it with a later "
                "toolkit");
  return FT_UNSUPPORTED;
}

#endif

}  // namespace foretrain
