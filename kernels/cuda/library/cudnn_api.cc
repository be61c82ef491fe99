#include "kernels/cuda/library/cudnn_api.h"

#include <dlfcn.h>

#include <cstdio>

namespace foretrain {
namespace {

// Finds one function of the library; on failure writes a sentence that names it.
template <class Function>
bool Find(void* library, const char* name, const char* file, Function& out, char* why,
          std::size_t n) {
  out = reinterpret_cast<Function>(dlsym(library, name));
  if (out == nullptr) {
    std::snprintf(why, n, "%s has no function %s; cuDNN 9.13 or later of 9 is needed", file, name);
  }
  return out != nullptr;
}

}  // namespace

// The library stays loaded: its kernels may run until the process ends.
FtStatus LoadCudnn(const char* file, CudnnApi* out, char* why, std::size_t n) {
  void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const text = dlerror();
    std::snprintf(why, n, "cuDNN does not load: %s", text != nullptr ? text : "no reason given");
    return FT_UNSUPPORTED;
  }
  CudnnApi api;
#define FT_FIND(name) Find(library, #name, file, api.name, why, n)
  const bool has_all = FT_FIND(cudnnGetVersion) && FT_FIND(cudnnGetErrorString) &&
                       FT_FIND(cudnnGetLastErrorString) && FT_FIND(cudnnCreate) &&
                       FT_FIND(cudnnDestroy) && FT_FIND(cudnnSetStream) &&
                       FT_FIND(cudnnBackendCreateDescriptor) &&
                       FT_FIND(cudnnBackendDestroyDescriptor) &&
                       FT_FIND(cudnnBackendSetAttribute) && FT_FIND(cudnnBackendGetAttribute) &&
                       FT_FIND(cudnnBackendFinalize) && FT_FIND(cudnnBackendExecute);
#undef FT_FIND
  if (!has_all) return FT_UNSUPPORTED;
  const std::size_t version = api.cudnnGetVersion();
  if (version < kOldestCudnn || version >= kNextCudnnMajor) {
    std::snprintf(why, n, "%s is cuDNN %zu.%zu.%zu; 9.13 or later of 9 is needed", file,
                  version / 10000, version / 100 % 100, version % 100);
    return FT_UNSUPPORTED;
  }
  *out = api;
  return FT_OK;
}

}  // namespace foretrain
