#include "runtime/nccl/nccl_library.h"

#include <dlfcn.h>

namespace foretrain {
namespace {

// NCCL encodes 2.14.0 as 21400. It is the first version with ncclCommInitRankConfig, by which
// communicators are created without blocking.
constexpr int kOldestVersion = 21400;

// A missing function means an older library, so the message names the version that is needed.
template <class Function>
Result<void> Find(void* library, const char* name, const std::string& file, Function& out) {
  out = reinterpret_cast<Function>(dlsym(library, name));
  if (out != nullptr) return {};
  return Fail(ErrorCode::kUnsupported,
              file + " has no function " + name + "; NCCL 2.14 or later is needed");
}

std::string VersionText(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace

// RTLD_LOCAL keeps NCCL's symbols from clashing with those of other libraries. The handle is never
// closed: the returned table points into the library.
Result<NcclApi> LoadNccl(const std::string& file) {
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const text = dlerror();
    return Fail(ErrorCode::kUnsupported,
                "NCCL does not load: " + std::string(text != nullptr ? text : "no reason given"));
  }
  NcclApi api;
#define FT_FIND(name) FT_TRY(Find(library, #name, file, api.name))
  FT_FIND(ncclGetVersion);
  FT_FIND(ncclGetUniqueId);
  FT_FIND(ncclCommInitRankConfig);
  FT_FIND(ncclCommGetAsyncError);
  FT_FIND(ncclCommFinalize);
  FT_FIND(ncclCommDestroy);
  FT_FIND(ncclCommAbort);
  FT_FIND(ncclGetErrorString);
  FT_FIND(ncclGetLastError);
  FT_FIND(ncclAllReduce);
  FT_FIND(ncclReduceScatter);
  FT_FIND(ncclAllGather);
  FT_FIND(ncclSend);
  FT_FIND(ncclRecv);
  FT_FIND(ncclGroupStart);
  FT_FIND(ncclGroupEnd);
#undef FT_FIND
  int version = 0;
  if (api.ncclGetVersion(&version) != kNcclSuccess || version < kOldestVersion) {
    return Fail(ErrorCode::kUnsupported,
                file + " is NCCL " + VersionText(version) + "; 2.14 or later is needed");
  }
  return api;
}

std::string NcclVersionText(const NcclApi& nccl) {
  int version = 0;
  return nccl.ncclGetVersion(&version) == kNcclSuccess ? VersionText(version) : "?";
}

}  // namespace foretrain
