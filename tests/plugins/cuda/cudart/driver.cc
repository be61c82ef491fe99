// Functions of the driver that the tests' CUDA runtime gives to its callers: shares of a GPU's
// multiprocessors, as green contexts, and tensor maps.
#include <cuda.h>

#include <cstring>

#include "tests/plugins/cuda/asynchronous/tensor_map.h"
#include "tests/plugins/cuda/cudart/device.h"

namespace foretrain::cudart {
namespace {

constexpr unsigned kMultiprocessors = 16;
constexpr unsigned kGranularity = 4;  // a share is made of whole groups of these

struct Share {
  int gpu = 0;
};
Handles<Share>& Shares() {
  static auto* const shares = new Handles<Share>;
  return *shares;
}

CUresult Told(cudaError_t error) {
  return error == cudaSuccess ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}
#define FT_BEGIN_DRIVER() \
  if (const CUresult result = Told(Begin(__func__)); result != CUDA_SUCCESS) return result

CUresult cuDeviceGet(CUdevice* device, int number) {
  FT_BEGIN_DRIVER();
  *device = number;
  return number < TheSettings().gpus ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "an error of the tests' driver";
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetDevResource(CUdevice, CUdevResource* resource, CUdevResourceType type) {
  FT_BEGIN_DRIVER();
  if (type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  *resource = {};
  resource->type = type;
  resource->sm.smCount = kMultiprocessors;
  return CUDA_SUCCESS;
}
CUresult cuDevSmResourceSplitByCount(CUdevResource* parts, unsigned* count,
                                     const CUdevResource* all, CUdevResource* rest, unsigned,
                                     unsigned least) {
  FT_BEGIN_DRIVER();
  const unsigned each = (least + kGranularity - 1) / kGranularity * kGranularity;
  *count = std::min(*count, all->sm.smCount / each);
  for (unsigned i = 0; i < *count; ++i) {
    parts[i] = *all;
    parts[i].sm.smCount = each;
  }
  *rest = *all;
  rest->sm.smCount = all->sm.smCount - *count * each;
  return CUDA_SUCCESS;
}
CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* description, CUdevResource* resources,
                                   unsigned) {
  FT_BEGIN_DRIVER();
  *description = reinterpret_cast<CUdevResourceDesc>(resources);
  return CUDA_SUCCESS;
}
CUresult cuGreenCtxCreate(CUgreenCtx* context, CUdevResourceDesc, CUdevice device, unsigned flags) {
  FT_BEGIN_DRIVER();
  if (flags != CU_GREEN_CTX_DEFAULT_STREAM) return CUDA_ERROR_INVALID_VALUE;
  *context = static_cast<CUgreenCtx>(Shares().Add(std::make_shared<Share>(Share{device})));
  return CUDA_SUCCESS;
}
CUresult cuGreenCtxDestroy(CUgreenCtx context) {
  FT_BEGIN_DRIVER();
  return Shares().Remove(context) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
CUresult cuGreenCtxStreamCreate(CUstream* stream, CUgreenCtx context, unsigned flags, int) {
  FT_BEGIN_DRIVER();
  const auto share = Shares().Find(context);
  if (share == nullptr || flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  *stream = static_cast<CUstream>(TheState().streams.Add(std::make_shared<Stream>(share->gpu)));
  return CUDA_SUCCESS;
}

// The rules of the driver's documentation, and the tests' own: 16-bit elements, at most three
// dimensions, boxes with rows of 128 bytes, and 128-byte swizzle.
CUresult cuTensorMapEncodeTiled(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank,
                                void* address, const cuuint64_t* sizes, const cuuint64_t* strides,
                                const cuuint32_t* box, const cuuint32_t* steps,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  FT_BEGIN_DRIVER();
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  constexpr std::uint64_t kMaxSize = std::uint64_t{1} << 32, kMaxStride = std::uint64_t{1} << 40;
  bool is_valid =
      reinterpret_cast<std::uintptr_t>(out) % 64 == 0 && at % 16 == 0 &&
      (type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 || type == CU_TENSOR_MAP_DATA_TYPE_FLOAT16) &&
      rank >= 2 && rank <= ptx::kMaxTensorRank && interleave == CU_TENSOR_MAP_INTERLEAVE_NONE &&
      swizzle == CU_TENSOR_MAP_SWIZZLE_128B && fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE &&
      AllocationAt(at).first.end != 0;
  if (!is_valid) return CUDA_ERROR_INVALID_VALUE;
  ptx::TensorMap map{ptx::kTensorMapMark, rank, at, {}, {}, {}};
  for (cuuint32_t d = 0; d < rank; ++d) {
    map.sizes[d] = sizes[d], map.box[d] = box[d];
    map.strides[d] = d == 0 ? 2 : strides[d - 1];
    is_valid = is_valid && sizes[d] > 0 && sizes[d] <= kMaxSize && box[d] > 0 && box[d] <= 256 &&
               steps[d] == 1 &&
               (d == 0 || (map.strides[d] % 16 == 0 && map.strides[d] < kMaxStride));
  }
  if (!is_valid || box[0] * 2 != ptx::kBoxRowBytes) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(out, &map, sizeof map);
  return CUDA_SUCCESS;
}

struct Function {
  const char* name;
  void* address;
};
#define FT_FUNCTION(name) \
  { #name, reinterpret_cast < void*>(&name) }
const Function kFunctions[] = {
    FT_FUNCTION(cuDeviceGet),
    FT_FUNCTION(cuGetErrorString),
    FT_FUNCTION(cuDeviceGetDevResource),
    FT_FUNCTION(cuDevSmResourceSplitByCount),
    FT_FUNCTION(cuDevResourceGenerateDesc),
    FT_FUNCTION(cuGreenCtxCreate),
    FT_FUNCTION(cuGreenCtxDestroy),
    FT_FUNCTION(cuGreenCtxStreamCreate),
    FT_FUNCTION(cuTensorMapEncodeTiled),
};

}  // namespace

extern "C" cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function,
                                                        unsigned, unsigned long long,
                                                        cudaDriverEntryPointQueryResult* result) {
  if (const cudaError_t error = Begin(__func__); error != cudaSuccess) return error;
  *function = nullptr;
  for (const Function& known : kFunctions) {
    if (std::strcmp(known.name, symbol) == 0) *function = known.address;
  }
  *result = *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

}  // namespace foretrain::cudart
