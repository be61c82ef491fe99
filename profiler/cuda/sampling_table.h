// The functions of libcupti that sample hardware counters (PM sampling), found on request: CUDA
// 12.6 is the first with them. profiler/cuda/counter_config.h and counter_sampler.h call them.
#pragma once

#include <cupti.h>

#if CUPTI_API_VERSION >= 24  // CUDA 12.6
#define FT_HAVE_PM_SAMPLING 1
#include <cupti_pmsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_target.h>

#include <cstddef>

// Names shared by the table and its loader. Each has the type of the header's prototype.
#define FT_SAMPLING_ENTRIES(use)                                                                  \
  use(DeviceGetChipName) use(GetResultString) use(PmSamplingCounterDataGetSampleInfo)             \
      use(PmSamplingCounterDataImageInitialize) use(PmSamplingDecodeData) use(PmSamplingDisable)  \
          use(PmSamplingEnable) use(PmSamplingGetCounterAvailability)                             \
              use(PmSamplingGetCounterDataInfo) use(PmSamplingGetCounterDataSize)                 \
                  use(PmSamplingSetConfig) use(PmSamplingStart) use(PmSamplingStop)               \
                      use(ProfilerHostConfigAddMetrics) use(ProfilerHostDeinitialize)             \
                          use(ProfilerHostEvaluateToGpuValues) use(ProfilerHostGetConfigImage)    \
                              use(ProfilerHostGetConfigImageSize) use(ProfilerHostGetNumOfPasses) \
                                  use(ProfilerHostInitialize) use(ProfilerInitialize)

// A variable of one of CUPTI's parameter structures, which carry their own size.
#define FT_CUPTI_PARAMS(Type, name) \
  Type name{};                      \
  name.structSize = Type##_STRUCT_SIZE

namespace foretrain {

struct SamplingTable {
#define FT_SAMPLING_MEMBER(name) decltype(&::cupti##name) name = nullptr;
  FT_SAMPLING_ENTRIES(FT_SAMPLING_MEMBER)
#undef FT_SAMPLING_MEMBER
};

// Fills the table from a library of LoadCupti. If false, `why` holds a sentence without full stop.
bool FindSampling(void* library, SamplingTable& table, char* why, std::size_t n);

// True for CUPTI_SUCCESS. Otherwise `why` receives `what` with the library's text and, if the
// result is known, the remedy.
bool CheckSampling(const SamplingTable& table, CUptiResult result, const char* what, char* why,
                   std::size_t n);

}  // namespace foretrain
#endif
