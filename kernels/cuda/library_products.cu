#include "kernels/cuda/library_products.cuh"

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/entries.h"
#include "kernels/cuda/fp8.cuh"
#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/library_gemm.h"

namespace foretrain {
namespace {

// ---- what follows a product

// c = f(aux), or c = c * f'(aux): of a product whose y lies there, rounded.
__global__ void EpilogueKernel(FtGemm g) {
  const std::int64_t octets = (g.n + kOctet - 1) / kOctet;
  const std::int64_t item = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  const std::int64_t row = item / octets, col = item % octets * kOctet, left = g.n - col;
  if (row >= g.m) return;
  float x[kOctet], y[kOctet];
  LoadAnyOctet(g.aux, g.c_dtype, row * g.ld_aux + col, left, x);
  if (g.epilogue == FT_EPILOGUE_SLOPE) LoadAnyOctet(g.c, g.c_dtype, row * g.ldc + col, left, y);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    x[i] = g.epilogue == FT_EPILOGUE_SLOPE ? y[i] * ActivationSlope(x[i], g.activation)
                                           : Activated(x[i], g.activation);
  }
  StoreAnyOctet(g.c, g.c_dtype, row * g.ldc + col, left, x);
}

// Eight columns of a row of codes, for SumColumns.
struct CodeTerm {
  const void* at;
  std::int64_t cols;
  FtDtype dtype;
  CodeScales scales;

  FT_DEVICE void Add(std::int64_t row, std::int64_t col, std::int64_t left, float (&a)[kOctet],
                     float (&)[kOctet]) const {
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      if (i >= left) continue;
      const float by = scales.at != nullptr ? scales.Of(row, col + i) : 1.0F;
      a[i] += by * LoadOperand(at, dtype, row * cols + col + i);
    }
  }
};

// The library's product, and as kernels of their own what it does not take.
FtStatus WithWhatIsLacking(FtQueue* queue, CudaCheck& check, const FtGemm& g,
                           const GemmWorkspace& workspace) {
  const FtStatus whole = LibraryGemm(queue, g, workspace);
  const bool has_parts = g.epilogue != FT_EPILOGUE_NONE || g.row_sums != nullptr;
  if (whole != FT_UNSUPPORTED || !has_parts) return whole;
  FtGemm after = g, product = g;
  if (g.aux == nullptr) after.aux = g.c, after.ld_aux = g.ldc;  // in place
  product.epilogue = FT_EPILOGUE_NONE;
  product.aux = product.row_sums = nullptr;
  if (after.epilogue == FT_EPILOGUE_ACTIVATE) product.c = after.aux, product.ldc = after.ld_aux;
  FtStatus status = LibraryGemm(queue, product, workspace);
  if (status == FT_OK && g.row_sums != nullptr) status = SumRows(queue, check, g);
  if (status != FT_OK || g.epilogue == FT_EPILOGUE_NONE) return status;
  FT_LAUNCH(EpilogueKernel, dim3(Blocks(g.m * ((g.n + kOctet - 1) / kOctet), kBlock)), dim3(kBlock),
            0, StreamOf(queue), after);
  return check.Launched();
}

// ---- products of codes

constexpr std::int64_t kUnit = 16;  // the library wants multiples of it, and words of 16 bytes

// Compute capabilities 8.9, 9.0 and 12 take codes with the depth along both operands' rows alone
// (cuBLAS, cublasLtMatmul: the TN format); 10 takes all.
bool WantsDepthAlongRows(int capability) { return capability < 100 || capability >= 120; }

std::byte* Later(const void* at, FtDtype dtype, std::int64_t numbers) {
  return static_cast<std::byte*>(const_cast<void*>(at)) + numbers * (dtype == FT_F32 ? 4 : 2);
}

// A product of codes whose operands are turned. What is turned takes its part of the workspace: c
// is made in pieces of `rows` x `cols`, all of the depth each.
struct Turned {
  bool a, b;
  std::int64_t rows, cols;

  std::byte* OfA(const CudaQueue& q) const { return q.workspace; }
  std::byte* OfB(const CudaQueue& q, const FtGemm& g) const {
    return q.workspace + (a ? rows * g.k : 0);
  }
};

// The largest pieces that there is room for; rows 0 where there is none.
Turned PiecesOf(const CudaQueue& q, const FtGemm& g) {
  const bool only_deep = WantsDepthAlongRows(q.capability);
  Turned turned{only_deep && g.trans_a != 0, only_deep && g.trans_b == 0, g.m, g.n};
  const std::int64_t sides = (turned.a ? 1 : 0) + (turned.b ? 1 : 0);
  if (sides == 0) return turned;
  const std::int64_t most = q.turned_bytes / sides / g.k / kUnit * kUnit;
  if (most == 0) return {turned.a, turned.b, 0, 0};
  if (turned.a && g.m > most) turned.rows = most;
  if (turned.b && g.n > most) turned.cols = most;
  return turned;
}

// Columns from `col` on, with b turned where it is to be.
FtGemm ColumnsFrom(FtQueue* queue, const FtGemm& g, const Turned& turned, std::int64_t col) {
  FtGemm part = g;
  part.n = g.n - col < turned.cols ? g.n - col : turned.cols;
  part.b = static_cast<const std::byte*>(g.b) + col * (g.trans_b != 0 ? g.ldb : 1);
  if (turned.b) {
    std::byte* const to = turned.OfB(QueueOf(queue), g);
    TurnCodes(queue, part.b, g.ldb, g.k, part.n, to);
    part.b = to, part.ldb = g.k, part.trans_b = 1;
  }
  part.c = Later(g.c, g.c_dtype, col);
  if (g.bias != nullptr) part.bias = Later(g.bias, g.bias_dtype, col);
  if (g.aux != nullptr) part.aux = Later(g.aux, g.c_dtype, col);
  return part;
}

// Rows from `row` on of what ColumnsFrom left.
FtGemm RowsFrom(FtQueue* queue, const FtGemm& g, const Turned& turned, std::int64_t row) {
  FtGemm part = g;
  part.m = g.m - row < turned.rows ? g.m - row : turned.rows;
  part.a = static_cast<const std::byte*>(g.a) + row * (g.trans_a != 0 ? 1 : g.lda);
  if (turned.a) {
    std::byte* const to = turned.OfA(QueueOf(queue));
    TurnCodes(queue, part.a, g.lda, g.k, part.m, to);
    part.a = to, part.lda = g.k, part.trans_a = 0;
  }
  part.c = Later(g.c, g.c_dtype, row * g.ldc);
  if (g.aux != nullptr) part.aux = Later(g.aux, g.c_dtype, row * g.ld_aux);
  return part;
}

FtStatus CodeProduct(FtQueue* queue, CudaCheck& check, const FtGemm& g) {
  const CudaQueue& q = QueueOf(queue);
  if (q.capability < 89 || (g.m | g.n | g.k) % kUnit != 0) return FT_UNSUPPORTED;
  const Turned turned = PiecesOf(q, g);
  if (turned.rows == 0) return FT_UNSUPPORTED;
  const std::int64_t used = turned.a || turned.b ? q.turned_bytes : 0;
  const GemmWorkspace rest{q.workspace + used, kWorkspaceBytes - used};
  bool begun = false;
  for (std::int64_t col = 0; col < g.n; col += turned.cols) {
    const FtGemm columns = ColumnsFrom(queue, g, turned, col);
    for (std::int64_t row = 0; row < g.m; row += turned.rows) {
      const FtGemm part = RowsFrom(queue, columns, turned, row);
      const FtStatus status = WithWhatIsLacking(queue, check, part, rest);
      if (status == FT_UNSUPPORTED && begun) {
        check.Refuse(FT_FAILED, "the library took one piece of a product and refused the next");
        return check.status();
      }
      if (status != FT_OK) return status;
      begun = true;
    }
  }
  return FT_OK;
}

}  // namespace

FtStatus SumRows(FtQueue* queue, CudaCheck& check, const FtGemm& g) {
  if (!IsCode(g.dtype)) {
    const FtBiasGrad sums{g.a, g.row_sums, g.k, g.m, g.accumulate, g.dtype, g.row_sums_dtype};
    return CudaBiasGrad(queue, &sums);
  }
  const CodeTerm term{g.a, g.m, g.dtype, {g.a_scale, g.a_scaling, g.m, 0}};
  SumColumns(queue, check, term, g.k, g.m, g.row_sums, nullptr, g.row_sums_dtype, g.accumulate);
  return check.Launched();
}

FtStatus LibraryProduct(FtQueue* queue, CudaCheck& check, const FtGemm& g) {
  if (!IsCode(g.dtype)) {
    return WithWhatIsLacking(queue, check, g, {QueueOf(queue).workspace, kWorkspaceBytes});
  }
  FtGemm product = g;
  product.row_sums = nullptr;
  const FtStatus status = CodeProduct(queue, check, product);
  return status == FT_OK && g.row_sums != nullptr ? SumRows(queue, check, g) : status;
}

}  // namespace foretrain
