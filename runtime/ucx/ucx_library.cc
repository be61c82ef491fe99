#include "runtime/ucx/ucx_library.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <utility>

namespace foretrain {
namespace {

// The library reads them when it is loaded.
constexpr std::array<std::pair<const char*, const char*>, 5> kVariables = {{
    // Its handlers of SIGSEGV and the like would hide a crash from those of the program.
    {"UCX_HANDLE_ERRORS", "none"},
    // It logs to stdout, and the runtime reports errors itself.
    {"UCX_LOG_LEVEL", "fatal"},
    // Endpoints that report a peer's death use shared memory too.
    {"UCX_POSIX_ERROR_HANDLING", "y"},
    // 0.6 MB of shared memory a worker instead of 4.3 MB; it grows if a peer sends more.
    {"UCX_POSIX_RX_BUFS_GROW", "64"},
    // The process group's connections notice deaths. Threads that compute drive no keepalive.
    {"UCX_KEEPALIVE_INTERVAL", "inf"},
}};

// A missing function means an older library, so the message names the version that is needed.
template <class Function>
Result<void> Find(void* library, const char* name, const std::string& file, Function& out) {
  out = reinterpret_cast<Function>(dlsym(library, name));
  if (out != nullptr) return {};
  return Fail(ErrorCode::kUnsupported,
              file + " has no function " + name + "; UCX 1.13 or later is needed");
}

}  // namespace

// RTLD_LOCAL keeps UCX's symbols from clashing with those of other libraries. The handle is never
// closed: the returned table points into the library.
Result<UcxApi> LoadUcx(const std::string& file) {
  for (const auto& [name, value] : kVariables) setenv(name, value, /*replace=*/0);
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const text = dlerror();
    return Fail(ErrorCode::kUnsupported,
                "UCX does not load: " + std::string(text != nullptr ? text : "no reason given"));
  }
  UcxApi api;
#define FT_FIND(name) FT_TRY(Find(library, #name, file, api.name))
  FT_FIND(ucp_get_version);
  FT_FIND(ucp_config_read);
  FT_FIND(ucp_config_modify);
  FT_FIND(ucp_config_release);
  FT_FIND(ucp_init_version);
  FT_FIND(ucp_cleanup);
  FT_FIND(ucp_worker_create);
  FT_FIND(ucp_worker_destroy);
  FT_FIND(ucp_worker_get_address);
  FT_FIND(ucp_worker_release_address);
  FT_FIND(ucp_worker_get_efd);
  FT_FIND(ucp_worker_progress);
  FT_FIND(ucp_worker_arm);
  FT_FIND(ucp_ep_create);
  FT_FIND(ucp_ep_close_nbx);
  FT_FIND(ucp_ep_flush_nbx);
  FT_FIND(ucp_tag_send_nbx);
  FT_FIND(ucp_tag_recv_nbx);
  FT_FIND(ucp_request_cancel);
  FT_FIND(ucp_request_check_status);
  FT_FIND(ucp_request_free);
  FT_FIND(ucs_status_string);
#undef FT_FIND
  unsigned major = 0, minor = 0, release = 0;
  api.ucp_get_version(&major, &minor, &release);
  if (major != 1 || minor < 13) {
    return Fail(ErrorCode::kUnsupported,
                file + " is UCX " + UcxVersionText(api) + "; 1.13 or a later 1.x is needed");
  }
  return api;
}

std::string UcxVersionText(const UcxApi& ucx) {
  unsigned major = 0, minor = 0, release = 0;
  ucx.ucp_get_version(&major, &minor, &release);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
}

}  // namespace foretrain
