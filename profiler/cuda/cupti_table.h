// The functions of libcupti that capture uses, loaded on request, so that the plugin also loads
// without the library. profiler/cuda/cuda_capture.h calls them.
#pragma once

#include <cupti.h>

#include <cstddef>

// Names shared by the table and its loader. Each has the type of the header's prototype.
#define FT_CUPTI_ENTRIES(use)                                                        \
  use(ActivityDisable) use(ActivityEnable) use(ActivityEnableDriverApi)              \
      use(ActivityEnableRuntimeApi) use(ActivityFlushAll) use(ActivityGetNextRecord) \
          use(ActivityGetNumDroppedRecords) use(ActivityPopExternalCorrelationId)    \
              use(ActivityPushExternalCorrelationId) use(ActivityRegisterCallbacks)  \
                  use(ActivityRegisterTimestampCallback) use(ActivitySetAttribute)   \
                      use(EnableCallback) use(GetGraphNodeId) use(GetResultString)   \
                          use(GetTimestamp) use(GetVersion) use(Subscribe) use(Unsubscribe)

namespace foretrain {

struct CuptiTable {
#define FT_CUPTI_MEMBER(name) decltype(&::cupti##name) name = nullptr;
  FT_CUPTI_ENTRIES(FT_CUPTI_MEMBER)
#undef FT_CUPTI_MEMBER
};

// Fills the table from the first of `count` libraries that loads; it is never unloaded. If false,
// `why` holds a sentence without full stop: none loads, a function is missing, or the major version
// differs from the headers', whose record layout would then not match.
bool LoadCupti(const char* const* libraries, std::size_t count, CuptiTable& table, char* why,
               std::size_t n);

// The library's text for a result.
const char* CuptiText(const CuptiTable& table, CUptiResult result);

}  // namespace foretrain
