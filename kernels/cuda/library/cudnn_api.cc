#include "kernels/cuda/library/cudnn_api.h"

#include <dlfcn.h>
#include <glob.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

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

// Folders of Python packages that pip installs into. A variable that is not set leaves its folders
// out.
struct PackageFolder {
  const char* variable;  // "": none
  const char* pattern;   // below the variable's folder
};
constexpr PackageFolder kPackageFolders[] = {
    {"VIRTUAL_ENV", "/lib/python3*/site-packages"}, {"CONDA_PREFIX", "/lib/python3*/site-packages"},
    {"HOME", "/.local/lib/python3*/site-packages"}, {"", "/usr/local/lib/python3*/*-packages"},
    {"", "/usr/lib/python3*/*-packages"},
};

// Opens the first library of the package nvidia-cudnn, which PyTorch installs too. NULL if there is
// none that loads.
void* OpenFromPython(const char* file) {
  for (const PackageFolder& folder : kPackageFolders) {
    const char* const root = *folder.variable == '\0' ? "" : std::getenv(folder.variable);
    if (root == nullptr) continue;
    const std::string pattern = std::string(root) + folder.pattern + "/nvidia/cudnn/lib/" + file;
    glob_t found{};
    void* library = nullptr;
    if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
      for (std::size_t i = 0; library == nullptr && i < found.gl_pathc; ++i) {
        library = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
      }
    }
    globfree(&found);
    if (library != nullptr) return library;
  }
  return nullptr;
}

}  // namespace

// The library stays loaded: its kernels may run until the process ends.
FtStatus LoadCudnn(const char* file, CudnnApi* out, char* why, std::size_t n) {
  void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const text = dlerror();
    std::snprintf(why, n, "cuDNN does not load: %s", text != nullptr ? text : "no reason given");
    if (std::strchr(file, '/') == nullptr) library = OpenFromPython(file);
    if (library == nullptr) return FT_UNSUPPORTED;
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
