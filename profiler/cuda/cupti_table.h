// The functions of libcupti that capture uses, loaded on request, so that the plugin also loads
// without the library. profiler/cuda/cuda_capture.h calls them.
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>

// Names shared by the table and its loader. Each has the type of the header's prototype.
#define FT_CUPTI_ENTRIES(use)                                                                      \
  use(ActivityDisable) use(ActivityEnable) use(ActivityFlushAll) use(ActivityGetNextRecord)        \
      use(ActivityGetNumDroppedRecords) use(ActivityPopExternalCorrelationId)                      \
          use(ActivityPushExternalCorrelationId) use(ActivityRegisterCallbacks)                    \
              use(ActivityRegisterTimestampCallback) use(ActivitySetAttribute) use(EnableCallback) \
                  use(GetGraphNodeId) use(GetResultString) use(GetTimestamp) use(GetVersion)       \
                      use(Subscribe) use(Unsubscribe)

namespace foretrain {

struct CuptiTable {
#define FT_CUPTI_MEMBER(name) decltype(&::cupti##name) name = nullptr;
  FT_CUPTI_ENTRIES(FT_CUPTI_MEMBER)
#undef FT_CUPTI_MEMBER
  void* library = nullptr;  // that all functions are from
  // Choose single calls of the kinds DRIVER and RUNTIME. CUDA 12.6's header has them, 12.4's does
  // not; NULL if the library has none.
  using ChooseCall = CUptiResult (*)(CUpti_CallbackId call, std::uint8_t enable);
  ChooseCall ActivityEnableDriverApi = nullptr;
  ChooseCall ActivityEnableRuntimeApi = nullptr;

  bool CanChooseCalls() const {
    return ActivityEnableDriverApi != nullptr && ActivityEnableRuntimeApi != nullptr;
  }
};

// Fills the table from the first of `count` libraries that loads; it is never unloaded. If false,
// `why` holds a sentence without full stop: none loads, a function is missing, or the library is
// older than CUDA 12.2 or of another CUDA than the headers, whose numbers would then not match.
bool LoadCupti(const char* const* libraries, std::size_t count, CuptiTable& table, char* why,
               std::size_t n);

// The library's text for a result.
const char* CuptiText(const CuptiTable& table, CUptiResult result);

}  // namespace foretrain
