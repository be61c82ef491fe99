#include "kernels/cuda/library/library_gemm.h"

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <optional>
#include <vector>

#include "kernels/cuda/device/queue.h"
#include "kernels/formats.h"

namespace foretrain {
namespace {

// Properties by which an algorithm is chosen.
struct Shape {
  std::int64_t m, n, k, lda, ldb, ldc, ld_aux, workspace_bytes;
  std::int32_t trans_a, trans_b, accumulate, has_bias, has_row_sums, scales, scaling;
  std::int32_t dtype, bias_dtype, c_dtype, row_sums_dtype, compute, epilogue, activation;
  std::int32_t alignment;  // in bytes, common to all pointers

  bool operator==(const Shape& other) const = default;
};

enum class State : std::uint8_t { kEmpty, kChosen, kNone };  // kNone: the library has none

struct Choice {
  Shape shape;
  cublasLtMatmulAlgo_t algorithm;
  State state;
};

// Direct-mapped cache: a shape has one slot, and another shape with the same slot replaces it.
constexpr std::size_t kChoices = 512;

}  // namespace

struct GemmLibrary {
  cublasLtHandle_t handle = nullptr;
  std::array<Choice, kChoices> choices{};
  std::vector<Choice> kept;  // from UseGemmAlgorithm; never replaced by another shape
};

namespace {

cudaDataType_t TypeOf(FtDtype dtype) {
  switch (dtype) {
    case FT_BF16:
      return CUDA_R_16BF;
    case FT_F16:
      return CUDA_R_16F;
    case FT_FP8:
      return CUDA_R_8F_E4M3;
    case FT_E5M2:
      return CUDA_R_8F_E5M2;
    default:
      return CUDA_R_32F;
  }
}

// Largest power of two, up to 256, that divides all addresses.
std::int32_t AlignmentOf(const FtGemm& g) {
  std::uintptr_t bits = 256U;
  for (const void* const at :
       {g.a, g.b, g.bias, static_cast<const void*>(g.c), static_cast<const void*>(g.aux),
        static_cast<const void*>(g.row_sums)}) {
    bits |= reinterpret_cast<std::uintptr_t>(at);
  }
  return static_cast<std::int32_t>(bits & (~bits + 1U));
}

// Fields without effect get a fixed value, so that calls that differ only there share a choice.
Shape ShapeOf(const FtGemm& g, std::int64_t workspace_bytes) {
  const bool has_epilogue = g.epilogue != FT_EPILOGUE_NONE;
  return {.m = g.m,
          .n = g.n,
          .k = g.k,
          .lda = g.lda,
          .ldb = g.ldb,
          .ldc = g.ldc,
          .ld_aux = has_epilogue && g.aux != nullptr ? g.ld_aux : 0,
          .workspace_bytes = workspace_bytes,
          .trans_a = g.trans_a != 0 ? 1 : 0,
          .trans_b = g.trans_b != 0 ? 1 : 0,
          .accumulate = g.accumulate != 0 ? 1 : 0,
          .has_bias = g.bias != nullptr ? 1 : 0,
          .has_row_sums = g.row_sums != nullptr ? 1 : 0,
          .scales = (g.a_scale != nullptr ? 1 : 0) + (g.b_scale != nullptr ? 2 : 0),
          .scaling = g.a_scaling * 4 + g.b_scaling,
          .dtype = g.dtype,
          .bias_dtype = g.bias != nullptr ? g.bias_dtype : FT_F32,
          .c_dtype = g.c_dtype,
          .row_sums_dtype = g.row_sums != nullptr ? g.row_sums_dtype : FT_F32,
          .compute = g.compute,
          .epilogue = g.epilogue,
          .activation = has_epilogue ? g.activation : FT_GELU_TANH,
          .alignment = AlignmentOf(g)};
}

// Hashes a shape to its slot; only equality of shapes decides whether the slot is used.
std::size_t PlaceOf(const Shape& s) {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  for (const std::int64_t value :
       {s.m, s.n, s.k, s.lda, s.ldb, s.ldc, s.ld_aux, s.workspace_bytes,
        std::int64_t{s.trans_a * 8 + s.trans_b * 4 + s.accumulate * 2 + s.has_bias},
        std::int64_t{s.has_row_sums * 64 + s.scales * 16 + s.scaling},
        std::int64_t{s.dtype * 4096 + s.bias_dtype * 64},
        std::int64_t{s.c_dtype * 64 + s.row_sums_dtype},
        std::int64_t{s.compute * 64 + s.epilogue * 8 + s.activation}, std::int64_t{s.alignment}}) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x100000001b3U;
  }
  return static_cast<std::size_t>((hash >> 32) % kChoices);
}

// The library's epilogue for the call; `nullopt` if it has none.
std::optional<cublasLtEpilogue_t> EpilogueOf(const FtGemm& g) {
  const bool has_bias = g.bias != nullptr;
  if (g.epilogue != FT_EPILOGUE_NONE) {
    // The library's GELU is the tanh form. Its RELU keeps only the signs, so it cannot be used.
    if (g.activation != FT_GELU_TANH) return std::nullopt;
    if (g.epilogue == FT_EPILOGUE_ACTIVATE && g.aux == nullptr) {
      return has_bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    }
    if (g.epilogue == FT_EPILOGUE_ACTIVATE) {
      return has_bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    }
    return has_bias ? std::nullopt : std::optional(CUBLASLT_EPILOGUE_DGELU);
  }
  if (g.row_sums != nullptr) {
    // The library overwrites the sums.
    return g.accumulate != 0 ? std::nullopt : std::optional(CUBLASLT_EPILOGUE_BGRADB);
  }
  return has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

// Descriptors of one call.
class Description {
 public:
  explicit Description(const FtGemm& g) {
    // Our rows are the library's columns: c^T = op(b)^T op(a)^T, so a and b change places.
    const cublasOperation_t of_first = g.trans_b != 0 ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t of_second = g.trans_a != 0 ? CUBLAS_OP_T : CUBLAS_OP_N;
    const bool tf32 = g.dtype == FT_F32 && g.compute == FT_TF32;
    Do(cublasLtMatmulDescCreate(&product_, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                CUDA_R_32F));
    Set(CUBLASLT_MATMUL_DESC_TRANSA, of_first);
    Set(CUBLASLT_MATMUL_DESC_TRANSB, of_second);
    const std::optional<cublasLtEpilogue_t> epilogue = EpilogueOf(g);
    if (!epilogue) {
      Do(CUBLAS_STATUS_NOT_SUPPORTED);
      return;
    }
    if (*epilogue != CUBLASLT_EPILOGUE_DEFAULT) Set(CUBLASLT_MATMUL_DESC_EPILOGUE, *epilogue);
    if (g.bias != nullptr) {
      Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, g.bias);
      Set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, TypeOf(g.bias_dtype));
    } else if (g.row_sums != nullptr) {
      Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, g.row_sums);
      Set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, TypeOf(g.row_sums_dtype));
    }
    if (g.epilogue != FT_EPILOGUE_NONE && g.aux != nullptr) {
      Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, g.aux);
      Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, g.ld_aux);
      Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, TypeOf(g.c_dtype));
    }
    if (g.b_scale != nullptr) Set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, g.b_scale);
    if (g.a_scale != nullptr) Set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, g.a_scale);
    SetScaleModes(g);
    const FtDtype of_b = IsCode(g.dtype) ? FT_FP8 : g.dtype;
    Layout(&first_, of_b, g.trans_b != 0 ? g.k : g.n, g.trans_b != 0 ? g.n : g.k, g.ldb);
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

  // Finds at most `most` algorithms, the library's first choice first.
  int Algorithms(cublasLtHandle_t handle, const Shape& shape, cublasLtMatmulHeuristicResult_t* out,
                 int most) {
    cublasLtMatmulPreference_t preference = nullptr;
    Do(cublasLtMatmulPreferenceCreate(&preference));
    if (!ok()) return 0;
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t name, auto value) {
      Do(cublasLtMatmulPreferenceSetAttribute(preference, name, &value, sizeof value));
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
        static_cast<std::uint64_t>(shape.workspace_bytes));
    const auto bytes = static_cast<std::uint32_t>(shape.alignment);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, bytes);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, bytes);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, bytes);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, bytes);
    int found = 0;
    Do(cublasLtMatmulAlgoGetHeuristic(handle, product_, first_, second_, result_, result_,
                                      preference, most, out, &found));
    cublasLtMatmulPreferenceDestroy(preference);
    if (!ok()) return 0;
    int usable = 0;
    for (int i = 0; i < found; ++i) {
      if (out[i].state == CUBLAS_STATUS_SUCCESS) out[usable++] = out[i];
    }
    return usable;
  }

  // True if the library accepts `algorithm` within the workspace.
  bool Takes(cublasLtHandle_t handle, const Shape& shape, const cublasLtMatmulAlgo_t& algorithm) {
    cublasLtMatmulHeuristicResult_t result{};
    if (!ok()) return false;
    Do(cublasLtMatmulAlgoCheck(handle, product_, first_, second_, result_, result_, &algorithm,
                               &result));
    return ok() && result.state == CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= static_cast<std::size_t>(shape.workspace_bytes);
  }

  // c is both input and output; its old value counts if the call accumulates.
  cublasStatus_t Run(CudaQueue& queue, const FtGemm& g, const cublasLtMatmulAlgo_t& algorithm,
                     const GemmWorkspace& workspace) {
    const float scale = g.scale == 0.0F ? 1.0F : g.scale;
    const float old = g.accumulate != 0 ? 1.0F : 0.0F;
    return cublasLtMatmul(queue.gemm->handle, product_, &scale, g.b, first_, g.a, second_, &old,
                          g.c, result_, g.c, result_, &algorithm, workspace.at,
                          static_cast<std::size_t>(workspace.bytes),
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
  // A single scale needs only the pointer; block scales need a mode.
  void SetScaleModes(const FtGemm& g) {
    if (g.a_scaling == FT_SCALE_TENSOR && g.b_scaling == FT_SCALE_TENSOR) return;
#if CUBLAS_VERSION >= 120900
    const auto mode_of = [](FtScaling scaling) {
      return scaling == FT_SCALE_TILES ? CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F
                                       : CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
    };
    Set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, mode_of(g.b_scaling));
    Set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, mode_of(g.a_scaling));
#else
    Do(CUBLAS_STATUS_NOT_SUPPORTED);
#endif
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

bool LibraryHasBlockScales() {
  constexpr std::size_t kSince = 120900;
  return CUBLAS_VERSION >= kSince && cublasLtGetVersion() >= kSince;
}

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

namespace {

// The algorithm for a shape: a kept one, else the cached one, else the library's first choice. A
// refusal is cached too, so that the library is asked once per shape.
Choice& ChoiceFor(GemmLibrary& library, const Shape& shape, Description& description) {
  Choice& choice = library.choices[PlaceOf(shape)];
  if (choice.state != State::kEmpty && choice.shape == shape) return choice;
  for (const Choice& kept : library.kept) {
    if (kept.shape == shape) return choice = kept;
  }
  cublasLtMatmulHeuristicResult_t best{};
  const bool has = description.ok() && description.Algorithms(library.handle, shape, &best, 1) > 0;
  return choice = {shape, best.algo, has ? State::kChosen : State::kNone};
}

}  // namespace

// If the library accepts an algorithm but refuses to run it, the shape counts as unsupported from
// then on.
FtStatus LibraryGemm(FtQueue* queue, const FtGemm& g, const GemmWorkspace& workspace) {
  CudaQueue& q = QueueOf(queue);
  const Shape shape = ShapeOf(g, workspace.bytes);
  Description description(g);
  Choice& choice = ChoiceFor(*q.gemm, shape, description);
  if (choice.state == State::kNone) return FT_UNSUPPORTED;
  const cublasStatus_t status = description.Run(q, g, choice.algorithm, workspace);
  if (status == CUBLAS_STATUS_SUCCESS) return FT_OK;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) {
    choice.state = State::kNone;
    return FT_UNSUPPORTED;
  }
  std::snprintf(q.error, sizeof q.error, "cuda gemm: cuBLASLt: %s (m %lld, n %lld, k %lld)",
                cublasLtGetStatusString(status), static_cast<long long>(g.m),
                static_cast<long long>(g.n), static_cast<long long>(g.k));
  return FT_FAILED;
}

FtStatus NameGemmLibrary(char* name, std::size_t n) {
  std::snprintf(name, n, "cublasLt-%llu", static_cast<unsigned long long>(cublasLtGetVersion()));
  return FT_OK;
}

// Measures nothing: the caller times the algorithms and keeps the fastest with UseGemmAlgorithm.
FtStatus FindGemmAlgorithms(FtQueue* queue, const FtGemm* g, FtGemmAlgorithm* out,
                            std::int32_t capacity, std::int32_t* count) {
  CudaQueue& q = QueueOf(queue);
  *count = 0;
  if (const FtStatus status = UseDevice(queue); status != FT_OK || capacity < 1) return status;
  const Shape shape = ShapeOf(*g, kWorkspaceBytes);
  Description description(*g);
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(capacity));
  const int usable =
      description.ok() ? description.Algorithms(q.gemm->handle, shape, found.data(), capacity) : 0;
  for (int i = 0; i < usable; ++i) {
    const cublasLtMatmulAlgo_t& algorithm = found[static_cast<std::size_t>(i)].algo;
    static_assert(sizeof algorithm == sizeof(FtGemmAlgorithm));
    std::memcpy(&out[i], &algorithm, sizeof algorithm);
  }
  *count = usable;
  return FT_OK;
}

// Kept algorithms come from a file, so the library checks each one before it is used.
FtStatus UseGemmAlgorithm(FtQueue* queue, const FtGemm* g, const FtGemmAlgorithm* algorithm) {
  CudaQueue& q = QueueOf(queue);
  if (const FtStatus status = UseDevice(queue); status != FT_OK) return status;
  Choice choice{ShapeOf(*g, kWorkspaceBytes), {}, State::kChosen};
  std::memcpy(&choice.algorithm, algorithm, sizeof choice.algorithm);
  Description description(*g);
  if (!description.Takes(q.gemm->handle, choice.shape, choice.algorithm)) {
    std::snprintf(q.error, sizeof q.error,
                  "cuda gemm: cuBLASLt does not take the algorithm that was kept for m %lld, "
                  "n %lld, k %lld",
                  static_cast<long long>(g->m), static_cast<long long>(g->n),
                  static_cast<long long>(g->k));
    return FT_UNSUPPORTED;
  }
  std::erase_if(q.gemm->kept, [&](const Choice& kept) { return kept.shape == choice.shape; });
  q.gemm->kept.push_back(choice);
  q.gemm->choices[PlaceOf(choice.shape)] = choice;
  return FT_OK;
}

}  // namespace foretrain
