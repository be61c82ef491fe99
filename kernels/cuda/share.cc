// Shares of a device's multiprocessors: green contexts, by driver entry points that are found when
// they are first asked for, so that the plugin loads with drivers that have none.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <new>
#include <vector>

#include "kernels/cuda/queue.h"
#include "kernels/cuda/share.h"

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
  const char* missing = nullptr;  // the first function that the driver lacks
};

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

// Of CUDA 12.4, the stream of 12.5.
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

FtStatus SharesCreate(int32_t device, int32_t count, int32_t multiprocessors, FtShare** out,
                      int32_t* each, char* why, size_t n) {
  const Driver& driver = TheDriver();
  if (driver.missing != nullptr) {
    std::snprintf(why, n, "cuda: this driver has no %s: shares need the driver of CUDA 12.5",
                  driver.missing);
    return FT_UNSUPPORTED;
  }
  // The primary context, which green ones are made beside.
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
  *each = static_cast<int32_t>(parts[0].sm.smCount);
  for (int32_t i = 0; i < count; ++i) {
    status = MakeShare(parts[static_cast<std::size_t>(i)], device, handle, &out[i], why, n);
    if (status == FT_OK) continue;
    for (int32_t earlier = 0; earlier < i; ++earlier) ShareDestroy(out[earlier]);
    return status;
  }
  return FT_OK;
}

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
