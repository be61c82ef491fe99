// A cuBLASLt for tests, on host memory: products in fp64 as the descriptors say. Like the real one
// it refuses 8-bit codes that are not in the format TN. Leaves out batches and row-major matrices.
#include "tests/plugins/fake_cublaslt.h"

#include <cublasLt.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/numeric/number_formats.h"
#include "tests/plugins/give_to_stream.h"

namespace {

using foretrain::FakeLibrary;

struct Matrix {
  cudaDataType type;
  std::int64_t rows, cols, stride;
};
struct Product {
  cublasComputeType_t compute;
  std::map<int, std::vector<std::uint8_t>> attributes;

  template <class T>
  T Get(cublasLtMatmulDescAttributes_t name, T otherwise) const {
    const auto found = attributes.find(name);
    if (found == attributes.end()) return otherwise;
    std::memcpy(&otherwise, found->second.data(), sizeof otherwise);
    return otherwise;
  }
  cublasLtEpilogue_t Epilogue() const {
    return Get(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
  }
  cublasLtMatmulMatrixScale_t ScaleMode(cublasLtMatmulDescAttributes_t name) const {
    return Get(name, CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F);
  }
  bool HasScaleModes() const {
    return attributes.count(CUBLASLT_MATMUL_DESC_A_SCALE_MODE) > 0 ||
           attributes.count(CUBLASLT_MATMUL_DESC_B_SCALE_MODE) > 0;
  }
  const float* Scales(cublasLtMatmulDescAttributes_t name) const {
    return Get<const float*>(name, nullptr);
  }
  bool Turned(cublasLtMatmulDescAttributes_t name) const {
    return Get(name, CUBLAS_OP_N) != CUBLAS_OP_N;
  }
};

const Matrix& Of(cublasLtMatrixLayout_t layout) { return *reinterpret_cast<Matrix*>(layout); }
const Product& Of(cublasLtMatmulDesc_t desc) { return *reinterpret_cast<Product*>(desc); }

bool IsCode(cudaDataType type) { return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2; }

double Read(const void* at, cudaDataType type, std::int64_t i) {
  switch (type) {
    case CUDA_R_8F_E4M3:
      return foretrain::FloatOfFp8(static_cast<const std::uint8_t*>(at)[i]);
    case CUDA_R_8F_E5M2:
      return foretrain::FloatOfE5m2(static_cast<const std::uint8_t*>(at)[i]);
    case CUDA_R_16BF:
      return foretrain::FloatOfBf16(static_cast<const std::uint16_t*>(at)[i]);
    case CUDA_R_16F:
      return foretrain::FloatOfFp16(static_cast<const std::uint16_t*>(at)[i]);
    default:
      return static_cast<const float*>(at)[i];
  }
}
void Write(void* at, cudaDataType type, std::int64_t i, double x) {
  const auto value = static_cast<float>(x);
  if (type == CUDA_R_16BF) {
    static_cast<std::uint16_t*>(at)[i] = foretrain::Bf16OfFloat(value);
  } else if (type == CUDA_R_16F) {
    static_cast<std::uint16_t*>(at)[i] = foretrain::Fp16OfFloat(value);
  } else {
    static_cast<float*>(at)[i] = value;
  }
}

// TF32 by dropping the last 13 bits, as this library does.
double Cut(double x) {
  const std::uint32_t bits = foretrain::BitsOfFloat(static_cast<float>(x));
  return foretrain::FloatOfBits(bits & 0xffffe000U);
}

// Scales of the blocks of one operand, of which `rows` are multiplied over `depth`: position of the
// scale of row i and depth k (cuBLAS, section "128-element 1D and 128x128 2D Block Scaling").
struct Scaling {
  const float* at;
  cublasLtMatmulMatrixScale_t mode;
  std::int64_t rows, depth;

  double Of(std::int64_t i, std::int64_t k) const {
    constexpr std::int64_t kSide = 128;
    const std::int64_t blocks = (depth + kSide - 1) / kSide;
    if (mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F) return at[k / kSide * rows + i];
    return at[i / kSide * ((blocks + 3) / 4 * 4) + k / kSide];
  }
};

// 8-bit codes with scales per 128 numbers, or per 128 x 128 for one of the operands.
bool TakesScaling(const Product& p, const Matrix& a, const Matrix& b) {
  const auto of_a = p.ScaleMode(CUBLASLT_MATMUL_DESC_A_SCALE_MODE),
             of_b = p.ScaleMode(CUBLASLT_MATMUL_DESC_B_SCALE_MODE);
  const auto is_line = [](auto mode) { return mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F; };
  const auto is_square = [](auto mode) {
    return mode == CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
  };
  const bool taken =
      (is_line(of_a) && (is_line(of_b) || is_square(of_b))) || (is_square(of_a) && is_line(of_b));
  for (const auto name :
       {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER}) {
    const auto at = reinterpret_cast<std::uintptr_t>(p.Scales(name));
    if (at == 0 || at % 16 != 0) return false;
  }
  return taken && IsCode(a.type) && IsCode(b.type) && FakeLibrary().version >= 120900;
}

// A bias is added in the format of the result.
bool TakesBias(const Product& p, const Matrix& result) {
  const auto type = static_cast<cudaDataType>(
      p.Get<std::int32_t>(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, result.type));
  return (p.Epilogue() & CUBLASLT_EPILOGUE_BIAS) == 0 || type == result.type;
}

bool HasAlgorithm(const Product& p, const Matrix& a, const Matrix& b, const Matrix& result) {
  if (cudaFakeLibrariesRefuse != nullptr && cudaFakeLibrariesRefuse()) return false;
  if (FakeLibrary().refused.count(p.Epilogue()) > 0) return false;
  if (p.HasScaleModes() && !TakesScaling(p, a, b)) return false;
  if (!TakesBias(p, result)) return false;
  if (!IsCode(a.type)) return true;
  const bool tn = p.Turned(CUBLASLT_MATMUL_DESC_TRANSA) && !p.Turned(CUBLASLT_MATMUL_DESC_TRANSB);
  const bool whole = (a.rows | a.cols | b.rows | b.cols | a.stride | b.stride) % 16 == 0;
  return tn && whole && !(a.type == CUDA_R_8F_E5M2 && b.type == CUDA_R_8F_E5M2);
}

double Gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double GeluSlope(double x) {
  constexpr double kStep = 1e-6;
  return (Gelu(x + kStep) - Gelu(x - kStep)) / (2 * kStep);
}

}  // namespace

namespace foretrain {
FakeCublasLt& FakeLibrary() {
  static FakeCublasLt library;
  return library;
}
}  // namespace foretrain

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static int only;
  *handle = reinterpret_cast<cublasLtHandle_t>(&only);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
const char* cublasLtGetStatusString(cublasStatus_t) { return "a status of the fake library"; }
std::size_t cublasLtGetVersion() { return FakeLibrary().version; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* out, cublasComputeType_t compute,
                                        cudaDataType_t) {
  *out = reinterpret_cast<cublasLtMatmulDesc_t>(new Product{compute, {}});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete &Of(desc);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t name,
                                              const void* value, std::size_t bytes) {
  const auto* const from = static_cast<const std::uint8_t*>(value);
  reinterpret_cast<Product*>(desc)->attributes[name].assign(from, from + bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* out, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t cols,
                                          std::int64_t stride) {
  *out = reinterpret_cast<cublasLtMatrixLayout_t>(
      new Matrix{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols), stride});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete &Of(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* out) {
  static cublasLtMatmulPreferenceOpaque_t only;
  *out = &only;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t, int max,
                                              cublasLtMatmulHeuristicResult_t out[], int* count) {
  *count = 0;
  if (!HasAlgorithm(Of(desc), Of(a), Of(b), Of(d))) return CUBLAS_STATUS_NOT_SUPPORTED;
  *count = std::min(max, FakeLibrary().algorithms);
  for (int i = 0; i < *count; ++i) {
    out[i] = {};
    out[i].algo.data[0] = static_cast<std::uint64_t>(i);
    out[i].state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  const std::uint64_t number = algorithm->data[0];
  const bool takes = HasAlgorithm(Of(desc), Of(a), Of(b), Of(d)) &&
                     FakeLibrary().not_taken.count(number) == 0 &&
                     number < static_cast<std::uint64_t>(FakeLibrary().algorithms);
  result->state = takes ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
  result->workspaceSize = static_cast<std::size_t>(FakeLibrary().workspace_bytes);
  return result->state;
}

namespace {

// A product with all that it reads, because it may be computed after its call has returned.
struct Call {
  Product product;
  Matrix a_layout, b_layout, c_layout;
  float alpha, beta;
  const void *a, *b, *c;
  void* d;
};

void Compute(const Call& call) {
  const Product& p = call.product;
  const Matrix &of_a = call.a_layout, &of_b = call.b_layout, &of_c = call.c_layout;
  const cublasLtEpilogue_t epilogue = p.Epilogue();
  const bool turn_a = p.Turned(CUBLASLT_MATMUL_DESC_TRANSA);
  const bool turn_b = p.Turned(CUBLASLT_MATMUL_DESC_TRANSB);
  const bool tf32 = p.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  const std::int64_t depth = turn_a ? of_a.rows : of_a.cols;
  const bool blocks = p.HasScaleModes();
  const Scaling a_scales{p.Scales(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER),
                         p.ScaleMode(CUBLASLT_MATMUL_DESC_A_SCALE_MODE), of_c.rows, depth};
  const Scaling b_scales{p.Scales(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER),
                         p.ScaleMode(CUBLASLT_MATMUL_DESC_B_SCALE_MODE), of_c.cols, depth};
  const auto of_all = [&](const Scaling& scales) {
    return scales.at != nullptr && !blocks ? *scales.at : 1.0;
  };
  const double scale = static_cast<double>(call.alpha) * of_all(a_scales) * of_all(b_scales);
  void* const bias = p.Get<void*>(CUBLASLT_MATMUL_DESC_BIAS_POINTER, nullptr);
  const auto bias_type = static_cast<cudaDataType>(
      p.Get<std::int32_t>(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, of_c.type));
  void* const aux = p.Get<void*>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, nullptr);
  const auto aux_stride = p.Get<std::int64_t>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 0);
  const auto number = [&](const void* at, const Matrix& of, std::int64_t row, std::int64_t col) {
    const double x = Read(at, of.type, col * of.stride + row);
    return tf32 ? Cut(x) : x;
  };
  for (std::int64_t col = 0; col < of_c.cols; ++col) {
    double of_column = 0;
    for (std::int64_t k = 0; epilogue == CUBLASLT_EPILOGUE_BGRADB && k < depth; ++k) {
      of_column += turn_b ? Read(call.b, of_b.type, k * of_b.stride + col)
                          : Read(call.b, of_b.type, col * of_b.stride + k);
    }
    if (epilogue == CUBLASLT_EPILOGUE_BGRADB) Write(bias, bias_type, col, of_column);
    for (std::int64_t row = 0; row < of_c.rows; ++row) {
      double sum = 0;
      for (std::int64_t k = 0; k < depth; ++k) {
        sum += (turn_a ? number(call.a, of_a, k, row) : number(call.a, of_a, row, k)) *
               (turn_b ? number(call.b, of_b, col, k) : number(call.b, of_b, k, col)) *
               (blocks ? a_scales.Of(row, k) * b_scales.Of(col, k) : 1.0);
      }
      const std::int64_t at = col * of_c.stride + row;
      double y = scale * sum;
      if (call.beta != 0) y += static_cast<double>(call.beta) * Read(call.c, of_c.type, at);
      if ((epilogue & CUBLASLT_EPILOGUE_BIAS) != 0) y += Read(bias, bias_type, row);
      if (epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
        Write(aux, of_c.type, col * aux_stride + row, y);
        y = Gelu(y);
      } else if (epilogue == CUBLASLT_EPILOGUE_GELU || epilogue == CUBLASLT_EPILOGUE_GELU_BIAS) {
        y = Gelu(y);
      } else if (epilogue == CUBLASLT_EPILOGUE_DGELU) {
        y *= GeluSlope(Read(aux, of_c.type, col * aux_stride + row));
      }
      Write(call.d, of_c.type, at, y);
    }
  }
}

// Ranks are threads and share the record of calls.
std::mutex recording;

}  // namespace

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t,
                              const cublasLtMatmulAlgo_t* algorithm, void*, std::size_t,
                              cudaStream_t stream) {
  const Call call{Of(desc),
                  Of(a_layout),
                  Of(b_layout),
                  Of(c_layout),
                  *static_cast<const float*>(alpha),
                  *static_cast<const float*>(beta),
                  a,
                  b,
                  c,
                  d};
  if (!HasAlgorithm(call.product, call.a_layout, call.b_layout, call.c_layout))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  {
    const std::lock_guard lock(recording);
    FakeLibrary().ran.push_back(algorithm->data[0]);
    FakeLibrary().epilogues.push_back(call.product.Epilogue());
    FakeLibrary().compute.push_back(call.product.compute);
    FakeLibrary().scale_modes.push_back(
        {call.product.ScaleMode(CUBLASLT_MATMUL_DESC_A_SCALE_MODE),
         call.product.ScaleMode(CUBLASLT_MATMUL_DESC_B_SCALE_MODE)});
  }
  return foretrain::GiveToStream(stream, "fake_cublaslt_product", [call] { Compute(call); })
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}
