#include "profiler/cuda/sampling_table.h"

#if FT_HAVE_PM_SAMPLING
#include <dlfcn.h>

#include <cstdio>

namespace foretrain {
namespace {

template <class Entry>
bool Find(void* library, const char* name, Entry& entry, char* why, std::size_t n) {
  entry = reinterpret_cast<Entry>(dlsym(library, name));
  if (entry != nullptr) return true;
  std::snprintf(why, n, "libcupti has no function %s; the libcupti of CUDA 12.6 or later has it",
                name);
  return false;
}

// The causes that a user can remove, by the header's list of results.
const char* RemedyOf(CUptiResult result) {
  switch (result) {
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
      return "; the driver keeps counters for administrators: load it with "
             "NVreg_RestrictProfilingToAdminUsers=0, or run as root";
    case CUPTI_ERROR_INVALID_OPERATION:
      return "; another profiler may be sampling this GPU: end it";
    case CUPTI_ERROR_OUT_OF_MEMORY:
      return "; the buffer of samples is full: sample less often";
    default:
      return "";
  }
}

}  // namespace

bool FindSampling(void* library, SamplingTable& table, char* why, std::size_t n) {
#define FT_SAMPLING_FIND(name) \
  if (!Find(library, "cupti" #name, table.name, why, n)) return false;
  FT_SAMPLING_ENTRIES(FT_SAMPLING_FIND)
#undef FT_SAMPLING_FIND
  return true;
}

bool CheckSampling(const SamplingTable& table, CUptiResult result, const char* what, char* why,
                   std::size_t n) {
  if (result == CUPTI_SUCCESS) return true;
  const char* text = nullptr;
  if (table.GetResultString(result, &text) != CUPTI_SUCCESS || text == nullptr) {
    text = "libcupti gave no reason";
  }
  std::snprintf(why, n, "CUPTI: %s: %s%s", what, text, RemedyOf(result));
  return false;
}

}  // namespace foretrain
#endif
