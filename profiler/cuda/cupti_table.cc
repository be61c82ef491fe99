#include "profiler/cuda/cupti_table.h"

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>

namespace foretrain {
namespace {

// CUDA 12.2. Older structures lack fields that profiler/cuda/activity_records.h reads.
constexpr std::uint32_t kOldest = 20;
static_assert(CUPTI_API_VERSION >= kOldest, "cupti.h of CUDA 12.2 or newer is needed");

// The CUDA of a version of CUPTI: since CUDA 13.0 it is in the number.
constexpr std::uint32_t CudaOf(std::uint32_t version) {
  return version >= 130'000 ? version / 10'000 : 12;
}

// Looks up one function by name; the sentence in `why` names a missing one.
template <class Entry>
bool Find(void* library, const char* name, Entry& entry, char* why, std::size_t n) {
  entry = reinterpret_cast<Entry>(dlsym(library, name));
  if (entry != nullptr) return true;
  std::snprintf(why, n, "libcupti has no function %s", name);
  return false;
}

}  // namespace

// The library stays loaded: CUPTI's threads may still run when the plugin is unloaded.
bool LoadCupti(const char* const* libraries, std::size_t count, CuptiTable& table, char* why,
               std::size_t n) {
  void* library = nullptr;
  for (std::size_t i = 0; i < count && library == nullptr; ++i) {
    library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) {
    std::snprintf(why, n,
                  "%s was not found; it comes with the CUDA toolkit, and its folder belongs into "
                  "LD_LIBRARY_PATH",
                  count > 0 ? libraries[0] : "libcupti");
    return false;
  }
#define FT_CUPTI_FIND(name) \
  if (!Find(library, "cupti" #name, table.name, why, n)) return false;
  FT_CUPTI_ENTRIES(FT_CUPTI_FIND)
#undef FT_CUPTI_FIND
  table.library = library;
  using Choose = CuptiTable::ChooseCall;
  table.ActivityEnableDriverApi =
      reinterpret_cast<Choose>(dlsym(library, "cuptiActivityEnableDriverApi"));
  table.ActivityEnableRuntimeApi =
      reinterpret_cast<Choose>(dlsym(library, "cuptiActivityEnableRuntimeApi"));
  std::uint32_t version = 0;
  const CUptiResult result = table.GetVersion(&version);
  if (result != CUPTI_SUCCESS || version < kOldest ||
      CudaOf(version) != CudaOf(CUPTI_API_VERSION)) {
    std::snprintf(why, n,
                  "libcupti has version %u, this plugin was built with version %u; the libcupti of "
                  "CUDA %u belongs into LD_LIBRARY_PATH",
                  static_cast<unsigned>(version), static_cast<unsigned>(CUPTI_API_VERSION),
                  static_cast<unsigned>(CudaOf(CUPTI_API_VERSION)));
    return false;
  }
  return true;
}

// Never null, so that it can be printed directly.
const char* CuptiText(const CuptiTable& table, CUptiResult result) {
  const char* text = nullptr;
  if (table.GetResultString == nullptr) return "libcupti gave no reason";
  if (table.GetResultString(result, &text) != CUPTI_SUCCESS || text == nullptr) {
    return "libcupti gave no reason";
  }
  return text;
}

}  // namespace foretrain
