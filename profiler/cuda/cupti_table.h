// The entry points of libcupti that capture uses, found when it is asked for: the plugin loads
// where the library is missing. Leaves out what is done with them (profiler/cuda/cuda_capture.h).
#pragma once

#include <cupti.h>

#include <cstddef>

// Names that the table and its loader share; each has the type of the header's prototype.
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

// Fills the table from the first of `count` libraries that loads, which is never unloaded. False: a
// sentence without a full stop in `why`: none loads, it lacks an entry, or its version's major
// number is not that of the headers, whose records it would write otherwise.
bool LoadCupti(const char* const* libraries, std::size_t count, CuptiTable& table, char* why,
               std::size_t n);

// The library's words for a result.
const char* CuptiText(const CuptiTable& table, CUptiResult result);

}  // namespace foretrain
