// The part of UCX's C interface that the runtime calls, loaded on request. It is declared here, so
// that the build needs no UCX header. runtime/ucx/ucx_worker.h calls it.
//
// Names, values and layouts follow UCX's ucp/api/ucp.h [1], 1.13 and later. Each struct has a mask
// of its valid fields, so a later library reads no field behind those that are declared here.
// tests/runtime/ucx/ucx_library_test.cc compares all of it with the header.
//
// [1] https://openucx.readthedocs.io/en/master/api.html
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace foretrain {

struct UcxConfigHandle;   // ucp_config_t
struct UcxContextHandle;  // ucp_context
struct UcxWorkerHandle;   // ucp_worker
struct UcxEndpoint;       // ucp_ep
struct UcxAddress;        // ucp_address_t

enum UcxStatus : signed char {
  kUcxOk = 0,
  kUcxInProgress = 1,
  kUcxTruncated = -9,
  kUcxLast = -100  // the lowest error
};

struct UcxParams {  // ucp_params_t
  static constexpr std::uint64_t kFeatures = 1, kMtWorkersShared = 1 << 5;
  static constexpr std::uint64_t kTag = 1, kWakeup = 1 << 4;
  std::uint64_t field_mask = 0;
  std::uint64_t features = 0;
  std::size_t request_size = 0;
  void (*request_init)(void*) = nullptr;
  void (*request_cleanup)(void*) = nullptr;
  std::uint64_t tag_sender_mask = 0;
  int mt_workers_shared = 0;
};

struct UcxWorkerParams {  // ucp_worker_params_t
  static constexpr std::uint64_t kThreadMode = 1;
  static constexpr int kSerialized = 1;
  std::uint64_t field_mask = 0;
  int thread_mode = 0;
};

struct UcxEndpointParams {  // ucp_ep_params_t
  static constexpr std::uint64_t kRemoteAddress = 1, kErrorMode = 2, kErrorHandler = 4;
  static constexpr int kPeerErrors = 1;
  std::uint64_t field_mask = 0;
  const UcxAddress* address = nullptr;
  int error_mode = 0;
  void (*on_error)(void* user, UcxEndpoint* endpoint, UcxStatus status) = nullptr;
  void* user = nullptr;
};

struct UcxReceived {  // ucp_tag_recv_info_t
  std::uint64_t tag = 0;
  std::size_t bytes = 0;
};

struct UcxRequestParams {  // ucp_request_param_t
  static constexpr std::uint32_t kCallback = 1 << 1, kUser = 1 << 2, kFlags = 1 << 4,
                                 kReceived = 1 << 7;
  static constexpr std::uint32_t kForce = 1;  // ucp_ep_close_nbx: cancels what is in progress
  std::uint32_t mask = 0;
  std::uint32_t flags = 0;
  void* request = nullptr;
  union {
    void (*sent)(void* request, UcxStatus status, void* user) = nullptr;
    void (*received)(void* request, UcxStatus status, const UcxReceived* received, void* user);
  };
  std::uint64_t datatype = 0;
  void* user = nullptr;
  void* reply_buffer = nullptr;
  int memory_type = 0;
  UcxReceived* received_at_once = nullptr;
};

// A pointer that functions return: null if the operation is complete, an encoded UcxStatus, or a
// request in progress.
inline bool IsUcxError(const void* request) {
  return reinterpret_cast<std::uintptr_t>(request) >=
         static_cast<std::uintptr_t>(static_cast<std::intptr_t>(kUcxLast));
}
inline UcxStatus UcxErrorOf(const void* request) {
  return static_cast<UcxStatus>(reinterpret_cast<std::intptr_t>(request));
}

struct UcxApi {
  void (*ucp_get_version)(unsigned* major, unsigned* minor, unsigned* release) = nullptr;
  UcxStatus (*ucp_config_read)(const char* prefix, const char* file,
                               UcxConfigHandle** config) = nullptr;
  UcxStatus (*ucp_config_modify)(UcxConfigHandle* config, const char* name,
                                 const char* value) = nullptr;
  void (*ucp_config_release)(UcxConfigHandle* config) = nullptr;
  UcxStatus (*ucp_init_version)(unsigned major, unsigned minor, const UcxParams* params,
                                const UcxConfigHandle* config,
                                UcxContextHandle** context) = nullptr;
  void (*ucp_cleanup)(UcxContextHandle* context) = nullptr;
  UcxStatus (*ucp_worker_create)(UcxContextHandle* context, const UcxWorkerParams* params,
                                 UcxWorkerHandle** worker) = nullptr;
  void (*ucp_worker_destroy)(UcxWorkerHandle* worker) = nullptr;
  UcxStatus (*ucp_worker_get_address)(UcxWorkerHandle* worker, UcxAddress** address,
                                      std::size_t* bytes) = nullptr;
  void (*ucp_worker_release_address)(UcxWorkerHandle* worker, UcxAddress* address) = nullptr;
  UcxStatus (*ucp_worker_get_efd)(UcxWorkerHandle* worker, int* descriptor) = nullptr;
  unsigned (*ucp_worker_progress)(UcxWorkerHandle* worker) = nullptr;
  UcxStatus (*ucp_worker_arm)(UcxWorkerHandle* worker) = nullptr;
  UcxStatus (*ucp_ep_create)(UcxWorkerHandle* worker, const UcxEndpointParams* params,
                             UcxEndpoint** endpoint) = nullptr;
  void* (*ucp_ep_close_nbx)(UcxEndpoint* endpoint, const UcxRequestParams* params) = nullptr;
  void* (*ucp_ep_flush_nbx)(UcxEndpoint* endpoint, const UcxRequestParams* params) = nullptr;
  void* (*ucp_tag_send_nbx)(UcxEndpoint* endpoint, const void* at, std::size_t bytes,
                            std::uint64_t tag, const UcxRequestParams* params) = nullptr;
  void* (*ucp_tag_recv_nbx)(UcxWorkerHandle* worker, void* at, std::size_t bytes, std::uint64_t tag,
                            std::uint64_t tag_mask, const UcxRequestParams* params) = nullptr;
  void (*ucp_request_cancel)(UcxWorkerHandle* worker, void* request) = nullptr;
  UcxStatus (*ucp_request_check_status)(void* request) = nullptr;
  void (*ucp_request_free)(void* request) = nullptr;
  const char* (*ucs_status_string)(UcxStatus status) = nullptr;
};

// Loads `file`, which stays loaded. Sets the library's variables UCX_* that the user has not set,
// so no other thread may read the environment meanwhile. Errors: kUnsupported, with the loader's
// text, or naming the missing function or the version, which must be 1.13 or later.
Result<UcxApi> LoadUcx(const std::string& file = "libucp.so.0");

// "1.13.1".
std::string UcxVersionText(const UcxApi& ucx);

}  // namespace foretrain
