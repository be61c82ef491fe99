#include "kernels/cuda/hopper/tensor_map.h"

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

#include "kernels/cuda/device/queue.h"

namespace foretrain {
namespace {

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                            const cuuint64_t*, const cuuint32_t*, const cuuint32_t*,
                            CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                            CUtensorMapFloatOOBfill);

// Looked up once per process; safe from any thread. Null if the driver lacks it.
Encode TheEncode() {
  static const Encode encode = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    const cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found,
                                                               12000, cudaEnableDefault, &result);
    if (error == cudaSuccess && result == cudaDriverEntryPointSuccess) {
      return reinterpret_cast<Encode>(found);
    }
    static_cast<void>(cudaGetLastError());
    return Encode{nullptr};
  }();
  return encode;
}

static_assert(sizeof(TensorMap) == sizeof(CUtensorMap));

}  // namespace

FtStatus MakeTensorMap(FtQueue* queue, const char* kernel, const TensorBox& box, TensorMap* out) {
  const Encode encode = TheEncode();
  if (encode == nullptr) {
    std::snprintf(QueueOf(queue).error, sizeof CudaQueue::error,
                  "cuda %s: this driver has no cuTensorMapEncodeTiled: use the driver of CUDA 12.0 "
                  "or later, or --tensor-kernels mma",
                  kernel);
    return FT_FAILED;
  }
  const auto row_bytes = static_cast<cuuint64_t>(box.cols) * 2;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(box.cols), static_cast<cuuint64_t>(box.rows),
                              static_cast<cuuint64_t>(box.planes)};
  const cuuint64_t strides[] = {row_bytes, row_bytes * sizes[1]};
  const cuuint32_t extent[] = {64, static_cast<cuuint32_t>(box.box_rows), 1};
  const cuuint32_t steps[] = {1, 1, 1};
  CUtensorMap map;
  const CUresult result = encode(
      &map,
      box.dtype == FT_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3,
      const_cast<void*>(box.at), sizes, strides, extent, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result == CUDA_SUCCESS) {
    std::memcpy(out, &map, sizeof map);
    return FT_OK;
  }
  std::snprintf(QueueOf(queue).error, sizeof CudaQueue::error,
                "cuda %s: the driver makes no tensor map of [%lld, %lld, %lld] values: error %d",
                kernel, static_cast<long long>(box.planes), static_cast<long long>(box.rows),
                static_cast<long long>(box.cols), static_cast<int>(result));
  return FT_FAILED;
}

}  // namespace foretrain
