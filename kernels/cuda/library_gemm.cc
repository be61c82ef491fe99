#include "kernels/cuda/library_gemm.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>

#include "kernels/cuda/queue.h"

namespace foretrain {
namespace {

// What an algorithm is chosen by.
struct Shape {
  std::int64_t m, n, k, lda, ldb, ldc;
  std::int32_t trans_a, trans_b, accumulate, has_bias;
  std::int32_t dtype, bias_dtype, c_dtype, alignment;  // in bytes, of all pointers

  bool operator==(const Shape& other) const = default;
};

struct Choice {
  Shape shape;
  cublasLtMatmulAlgo_t algorithm;
  std::int32_t state;  // 0: empty, 1: an algorithm, 2: the library has none
};

// A shape lies in one place; another that falls there takes it.
constexpr std::size_t kChoices = 512;

}  // namespace

struct GemmLibrary {
  cublasLtHandle_t handle = nullptr;
  std::array<Choice, kChoices> choices{};
};

namespace {

cudaDataType_t TypeOf(FtDtype dtype) {
  return dtype == FT_BF16 ? CUDA_R_16BF : dtype == FT_F16 ? CUDA_R_16F : CUDA_R_32F;
}

std::int32_t AlignmentOf(const FtGemm& g) {
  const auto bits = reinterpret_cast<std::uintptr_t>(g.a) | reinterpret_cast<std::uintptr_t>(g.b) |
                    reinterpret_cast<std::uintptr_t>(g.c) |
                    reinterpret_cast<std::uintptr_t>(g.bias) | 256U;
  return static_cast<std::int32_t>(bits & (~bits + 1U));
}

Shape ShapeOf(const FtGemm& g) {
  return {g.m,
          g.n,
          g.k,
          g.lda,
          g.ldb,
          g.ldc,
          g.trans_a != 0 ? 1 : 0,
          g.trans_b != 0 ? 1 : 0,
          g.accumulate != 0 ? 1 : 0,
          g.bias != nullptr ? 1 : 0,
          g.dtype,
          g.bias != nullptr ? g.bias_dtype : FT_F32,
          g.c_dtype,
          AlignmentOf(g)};
}

std::size_t PlaceOf(const Shape& shape) {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  const auto mix = [&](std::int64_t value) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x100000001b3U;
  };
  for (const std::int64_t value : {shape.m, shape.n, shape.k, shape.lda, shape.ldb, shape.ldc}) {
    mix(value);
  }
  mix(shape.trans_a * 8 + shape.trans_b * 4 + shape.accumulate * 2 + shape.has_bias);
  mix(shape.dtype * 4096 + shape.bias_dtype * 64 + shape.c_dtype);
  mix(shape.alignment);
  return static_cast<std::size_t>((hash >> 32) % kChoices);
}

// Descriptors of one call, destroyed with it.
class Description {
 public:
  explicit Description(const FtGemm& g) {
    // Rows of ours are columns of the library's: c^T = op(b)^T op(a)^T, so a and b change places.
    const cublasOperation_t of_first = g.trans_b != 0 ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t of_second = g.trans_a != 0 ? CUBLAS_OP_T : CUBLAS_OP_N;
    Do(cublasLtMatmulDescCreate(&product_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    Set(CUBLASLT_MATMUL_DESC_TRANSA, of_first);
    Set(CUBLASLT_MATMUL_DESC_TRANSB, of_second);
    if (g.bias != nullptr) {
      const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
      Set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
      Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, g.bias);
      Set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, TypeOf(g.bias_dtype));
    }
    Layout(&first_, g.dtype, g.trans_b != 0 ? g.k : g.n, g.trans_b != 0 ? g.n : g.k, g.ldb);
    Layout(&second_, g.dtype, g.trans_a != 0 ? g.m : g.k, g.trans_a != 0 ? g.k : g.m, g.lda);
    Layout(&result_, g.c_dtype, g.n, g.m, g.ldc);
  }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;
  ~Description() {
    if (result_ != nullptr) cublasLtMatrixLayoutDestroy(result_);
    if (second_ != nullptr) cublasLtMatrixLayoutDestroy(second_);
    if (first_ != nullptr) cublasLtMatrixLayoutDestroy(first_);
    if (product_ != nullptr) cublasLtMatmulDescDestroy(product_);
  }

  // Whether the library has an algorithm, which goes to `out`.
  bool Choose(cublasLtHandle_t handle, std::int32_t alignment, cublasLtMatmulAlgo_t& out) {
    cublasLtMatmulPreference_t preference = nullptr;
    Do(cublasLtMatmulPreferenceCreate(&preference));
    if (!ok()) return false;
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t name, auto value) {
      Do(cublasLtMatmulPreferenceSetAttribute(preference, name, &value, sizeof value));
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(kWorkspaceBytes));
    const auto bytes = static_cast<std::uint32_t>(alignment);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, bytes);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, bytes);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, bytes);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, bytes);
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    Do(cublasLtMatmulAlgoGetHeuristic(handle, product_, first_, second_, result_, result_,
                                      preference, 1, &best, &found));
    cublasLtMatmulPreferenceDestroy(preference);
    out = best.algo;
    return ok() && found > 0 && best.state == CUBLAS_STATUS_SUCCESS;
  }

  cublasStatus_t Run(CudaQueue& queue, const FtGemm& g, const cublasLtMatmulAlgo_t& algorithm) {
    const float scale = g.scale == 0.0F ? 1.0F : g.scale;
    const float old = g.accumulate != 0 ? 1.0F : 0.0F;
    return cublasLtMatmul(queue.gemm->handle, product_, &scale, g.b, first_, g.a, second_, &old,
                          g.c, result_, g.c, result_, &algorithm, queue.workspace,
                          static_cast<std::size_t>(kWorkspaceBytes),
                          static_cast<cudaStream_t>(queue.stream));
  }

  bool ok() const { return status_ == CUBLAS_STATUS_SUCCESS; }

 private:
  void Do(cublasStatus_t status) {
    if (ok()) status_ = status;
  }
  template <class Value>
  void Set(cublasLtMatmulDescAttributes_t name, const Value& value) {
    if (ok()) Do(cublasLtMatmulDescSetAttribute(product_, name, &value, sizeof value));
  }
  void Layout(cublasLtMatrixLayout_t* layout, FtDtype dtype, std::int64_t rows, std::int64_t cols,
              std::int64_t stride) {
    if (!ok()) return;
    Do(cublasLtMatrixLayoutCreate(layout, TypeOf(dtype), static_cast<std::uint64_t>(rows),
                                  static_cast<std::uint64_t>(cols), stride));
  }

  cublasStatus_t status_ = CUBLAS_STATUS_SUCCESS;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t first_ = nullptr, second_ = nullptr, result_ = nullptr;
};

}  // namespace

FtStatus MakeGemmLibrary(GemmLibrary** out, char* why, std::size_t n) {
  *out = new (std::nothrow) GemmLibrary;
  if (*out == nullptr) {
    std::snprintf(why, n, "cuda: no host memory for a GEMM library");
    return FT_OUT_OF_MEMORY;
  }
  const cublasStatus_t status = cublasLtCreate(&(*out)->handle);
  if (status == CUBLAS_STATUS_SUCCESS) return FT_OK;
  std::snprintf(why, n, "cuda: cuBLASLt: %s", cublasLtGetStatusString(status));
  delete *out;
  *out = nullptr;
  return FT_FAILED;
}

void DestroyGemmLibrary(GemmLibrary* library) {
  if (library == nullptr) return;
  cublasLtDestroy(library->handle);
  delete library;
}

FtStatus LibraryGemm(FtQueue* queue, const FtGemm& g) {
  CudaQueue& q = QueueOf(queue);
  const Shape shape = ShapeOf(g);
  Choice& choice = q.gemm->choices[PlaceOf(shape)];
  const bool known = choice.state != 0 && choice.shape == shape;
  if (known && choice.state == 2) return FT_UNSUPPORTED;
  Description description(g);
  if (!known) {
    choice.shape = shape;
    const bool has =
        description.ok() && description.Choose(q.gemm->handle, shape.alignment, choice.algorithm);
    choice.state = has ? 1 : 2;
    if (!has) return FT_UNSUPPORTED;
  }
  const cublasStatus_t status = description.Run(q, g, choice.algorithm);
  if (status == CUBLAS_STATUS_SUCCESS) return FT_OK;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) {
    choice.state = 2;
    return FT_UNSUPPORTED;
  }
  std::snprintf(q.error, sizeof q.error, "cuda gemm: cuBLASLt: %s (m %lld, n %lld, k %lld)",
                cublasLtGetStatusString(status), static_cast<long long>(g.m),
                static_cast<long long>(g.n), static_cast<long long>(g.k));
  return FT_FAILED;
}

}  // namespace foretrain
