// Shares of a device's multiprocessors, as green contexts. Driver functions are looked up on first
// use, so that the plugin loads with drivers that lack them.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <new>
#include <vector>

#include "kernels/cuda/device/share.h"

#if CUDART_VERSION >= 12050
namespace foretrain {
namespace {

struct Driver {
  CUresult (*cuDeviceGet)(CUdevice*, int) = nullptr;
  CUresult (*cuGetErrorString)(CUresult, const char**) = nullptr;
  CUresult (*cuDeviceGetDevResource)(CUdevice, CUdevResource*, CUdevResourceType) = nullptr;
  CUresult (*cuDevSmResourceSplitByCount)(CUdevResource*, unsigned*, const CUdevResource*,
                                          CUdevResource*, unsigned, unsigned) = nullptr;
  CUresult (*cuDevResourceGenerateDesc)(CUdevResourceDesc*, CUdevResource*, unsigned) = nullptr;
  CUresult (*cuGreenCtxCreate)(CUgreenCtx*, CUdevResourceDesc, CUdevice, unsigned) = nullptr;
  CUresult (*cuGreenCtxDestroy)(CUgreenCtx) = nullptr;
  CUresult (*cuGreenCtxStreamCreate)(CUstream*, CUgreenCtx, unsigned, int) = nullptr;
  const char* missing = nullptr;  // first function that the driver lacks; NULL if none
};

// Looks up a driver function in the given API version and remembers the first one that is missing.
template <class Function>
void Find(Driver& driver, const char* name, unsigned version, Function& out) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result);
  out = reinterpret_cast<Function>(found);
  if (error == cudaSuccess && result == cudaDriverEntryPointSuccess && found != nullptr) return;
  static_cast<void>(cudaGetLastError());
  if (driver.missing == nullptr) driver.missing = name;
}

// Green contexts exist since CUDA 12.4, their streams since 12.5.
Driver FindDriver() {
  Driver driver;
#define FT_FIND(name, version) Find(driver, #name, version, driver.name)
  FT_FIND(cuDeviceGet, 12000);
  FT_FIND(cuGetErrorString, 12000);
  FT_FIND(cuDeviceGetDevResource, 12040);
  FT_FIND(cuDevSmResourceSplitByCount, 12040);
  FT_FIND(cuDevResourceGenerateDesc, 12040);
  FT_FIND(cuGreenCtxCreate, 12040);
  FT_FIND(cuGreenCtxDestroy, 12040);
  FT_FIND(cuGreenCtxStreamCreate, 12050);
#undef FT_FIND
  return driver;
}

// Looked up once per process; safe from any thread.
const Driver& TheDriver() {
  static const Driver driver = FindDriver();
  return driver;
}

FtStatus Told(CUresult result, const char* what, char* why, size_t n) {
  if (result == CUDA_SUCCESS) return FT_OK;
  const char* text = nullptr;
  static_cast<void>(TheDriver().cuGetErrorString(result, &text));
  std::snprintf(why, n, "cuda: %s: %s", what, text != nullptr ? text : "no reason given");
  return FT_FAILED;
}

}  // namespace
}  // namespace foretrain

struct FtShare {
  CUgreenCtx context = nullptr;
  int device = 0;
};

namespace foretrain {
namespace {

void ShareDestroy(FtShare* share) {
  static_cast<void>(TheDriver().cuGreenCtxDestroy(share->context));
  delete share;
}

// Makes one share from its part of the multiprocessors.
FtStatus MakeShare(CUdevResource resource, int32_t device, CUdevice handle, FtShare** out,
                   char* why, size_t n) {
  const Driver& driver = TheDriver();
  CUdevResourceDesc description{};
  FtStatus status = Told(driver.cuDevResourceGenerateDesc(&description, &resource, 1),
                         "describe a share of multiprocessors", why, n);
  if (status != FT_OK) return status;
  CUgreenCtx context = nullptr;
  status = Told(driver.cuGreenCtxCreate(&context, description, handle, CU_GREEN_CTX_DEFAULT_STREAM),
                "make a green context", why, n);
  if (status != FT_OK) return status;
  *out = new (std::nothrow) FtShare{context, device};
  if (*out != nullptr) return FT_OK;
  static_cast<void>(driver.cuGreenCtxDestroy(context));
  std::snprintf(why, n, "cuda: no host memory for a share");
  return FT_OUT_OF_MEMORY;
}

// Splits the multiprocessors into `count` shares of at least `multiprocessors` each.
FtStatus SharesCreate(int32_t device, int32_t count, int32_t multiprocessors, FtShare** out,
                      int32_t* each, char* why, size_t n) {
  const Driver& driver = TheDriver();
  if (driver.missing != nullptr) {
    std::snprintf(why, n, "cuda: this driver has no %s: shares need the driver of CUDA 12.5",
                  driver.missing);
    return FT_UNSUPPORTED;
  }
  // Creates the primary context, which green contexts need.
  if (cudaSetDevice(device) != cudaSuccess || cudaFree(nullptr) != cudaSuccess) {
    std::snprintf(why, n, "cuda device %d: cannot be used", static_cast<int>(device));
    return FT_FAILED;
  }
  CUdevice handle = 0;
  FtStatus status = Told(driver.cuDeviceGet(&handle, device), "choose the device", why, n);
  CUdevResource all{};
  if (status == FT_OK) {
    status = Told(driver.cuDeviceGetDevResource(handle, &all, CU_DEV_RESOURCE_TYPE_SM),
                  "ask for multiprocessors", why, n);
  }
  if (status != FT_OK) return status;
  std::vector<CUdevResource> parts(static_cast<std::size_t>(count));
  auto made = static_cast<unsigned>(count);
  CUdevResource rest{};
  status = Told(driver.cuDevSmResourceSplitByCount(parts.data(), &made, &all, &rest, 0,
                                                   static_cast<unsigned>(multiprocessors)),
                "split multiprocessors", why, n);
  if (status != FT_OK) return status;
  if (made < static_cast<unsigned>(count)) {
    std::snprintf(why, n, "cuda device %d: its %u multiprocessors make %u shares of %d, not %d",
                  static_cast<int>(device), all.sm.smCount, made, static_cast<int>(multiprocessors),
                  static_cast<int>(count));
    return FT_UNSUPPORTED;
  }
  // All shares have equal size, rounded up by the driver. If one cannot be made, the earlier ones
  // are destroyed.
  *each = static_cast<int32_t>(parts[0].sm.smCount);
  for (int32_t i = 0; i < count; ++i) {
    status = MakeShare(parts[static_cast<std::size_t>(i)], device, handle, &out[i], why, n);
    if (status == FT_OK) continue;
    for (int32_t earlier = 0; earlier < i; ++earlier) ShareDestroy(out[earlier]);
    return status;
  }
  return FT_OK;
}

// A queue in a share runs only on the share's multiprocessors.
FtStatus QueueCreateIn(FtShare* share, FtQueue** out, char* why, size_t n) {
  CUstream stream = nullptr;
  const FtStatus status =
      Told(TheDriver().cuGreenCtxStreamCreate(&stream, share->context, CU_STREAM_NON_BLOCKING, 0),
           "make a stream in a share", why, n);
  *out = nullptr;
  return status == FT_OK ? MakeCudaQueue(share->device, stream, out, why, n) : status;
}

}  // namespace

void SetCudaShares(FtDeviceApi& api) {
  api.shares_create = &SharesCreate;
  api.share_destroy = &ShareDestroy;
  api.queue_create_in = &QueueCreateIn;
}

}  // namespace foretrain
#else
namespace foretrain {

// Headers before CUDA 12.5 declare no streams of green contexts: the device then lacks shares.
void SetCudaShares(FtDeviceApi&) {}

}  // namespace foretrain
#endif
