#include "kernels/cuda/library/library_products.cuh"

#include "kernels/cuda/device/entries.h"
#include "kernels/cuda/library/library_gemm.h"
#include "kernels/cuda/library/library_scales.cuh"
#include "kernels/cuda/own/activation.cuh"
#include "kernels/cuda/own/columns.cuh"
#include "kernels/cuda/own/fp8.cuh"
#include "kernels/cuda/own/kernel.cuh"

namespace foretrain {
namespace {

constexpr std::int64_t kAlignment = 256;  // of parts of the workspace

// ---- operations after a product

// c = f(aux), or c = c * f'(aux), for a product whose y has been stored, rounded, in aux.
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

// Terms of eight columns of a row of codes, for SumColumns.
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

// Runs the library's product. If it refuses the epilogue or row sums, runs them as separate
// kernels.
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

// ---- biases in another format than the result, which the library does not add

__global__ void ConvertBiasKernel(const void* from, FtDtype dtype, std::int64_t count, void* to,
                                  FtDtype to_dtype) {
  const std::int64_t at = (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) * kOctet;
  if (at >= count) return;
  float x[kOctet];
  LoadAnyOctet(from, dtype, at, count - at, x);
  StoreAnyOctet(to, to_dtype, at, count - at, x);
}

// The product with its bias in the result's format, at the end of the workspace. In 16 bits the
// bias is rounded, as a library's own would be.
FtStatus WithBiasInResultsFormat(FtQueue* queue, CudaCheck& check, const FtGemm& g,
                                 GemmWorkspace workspace) {
  if (g.bias == nullptr || g.bias_dtype == g.c_dtype) {
    return WithWhatIsLacking(queue, check, g, workspace);
  }
  workspace.bytes -= (g.n * std::int64_t{sizeof(float)} + kAlignment - 1) / kAlignment * kAlignment;
  if (workspace.bytes < 0) return FT_UNSUPPORTED;
  FtGemm product = g;
  product.bias = workspace.at + workspace.bytes;
  product.bias_dtype = g.c_dtype;
  FT_LAUNCH(ConvertBiasKernel, dim3(Blocks(g.n, kBlock * std::int64_t{kOctet})), dim3(kBlock), 0,
            StreamOf(queue), g.bias, g.bias_dtype, g.n, workspace.at + workspace.bytes, g.c_dtype);
  return WithWhatIsLacking(queue, check, product, workspace);
}

// ---- products of 8-bit codes

// The library needs sizes that are multiples of it, and 16-byte words.
constexpr std::int64_t kUnit = 16;

// Compute capabilities 8.9, 9.0 and 12 accept codes only with the depth along both operands' rows
// (cuBLAS, cublasLtMatmul: the TN format). 10 accepts all orders.
bool WantsDepthAlongRows(int capability) { return capability < 100 || capability >= 120; }

std::byte* Later(const void* at, FtDtype dtype, std::int64_t numbers) {
  return static_cast<std::byte*>(const_cast<void*>(at)) + numbers * (dtype == FT_F32 ? 4 : 2);
}

bool HasBlocks(const FtGemm& g) {
  return g.a_scaling != FT_SCALE_TENSOR || g.b_scaling != FT_SCALE_TENSOR;
}
BlockScales ScalesOfA(const FtGemm& g) {
  return {g.a_scale, g.a_scaling, g.trans_a != 0, g.m, g.k};
}
BlockScales ScalesOfB(const FtGemm& g) {
  return {g.b_scale, g.b_scaling, g.trans_b == 0, g.n, g.k};
}

// The library accepts block scales on Hopper only. Both operands' scales must run along the depth,
// and at most one operand may have tiles.
bool TakesBlocks(const CudaQueue& q, const FtGemm& g) {
  const BlockScales a = ScalesOfA(g), b = ScalesOfB(g);
  return q.capability == 90 && a.at != nullptr && b.at != nullptr && a.RunAlongDepth() &&
         b.RunAlongDepth() && !(a.AreTiles() && b.AreTiles()) && LibraryHasBlockScales();
}

// Cuts a product of codes into pieces that fit the workspace. Each piece is `rows` x `cols` of c
// over the whole depth. Operands are transposed if needed, and scales put in the library's order.
struct Pieces {
  bool turn_a, turn_b, blocks;
  std::int64_t rows, cols;  // 0 if the workspace is too small
  std::byte *codes_a, *codes_b, *scales_a, *scales_b;
  GemmWorkspace rest;
};

// The largest pieces that fit.
Pieces PiecesOf(const CudaQueue& q, const FtGemm& g) {
  const bool only_deep = WantsDepthAlongRows(q.capability);
  Pieces p{};
  p.turn_a = only_deep && g.trans_a != 0, p.turn_b = only_deep && g.trans_b == 0;
  p.blocks = HasBlocks(g), p.rows = g.m, p.cols = g.n;
  const std::int64_t sides = (p.turn_a ? 1 : 0) + (p.turn_b ? 1 : 0);
  std::int64_t used = 0;
  if (sides > 0) {
    const std::int64_t unit = p.blocks ? std::int64_t{FT_SCALE_SIDE} : kUnit;
    const std::int64_t most = q.turned_bytes / sides / g.k / unit * unit;
    const bool fits = ((p.turn_a ? g.m : 0) + (p.turn_b ? g.n : 0)) * g.k <= q.turned_bytes;
    if (!fits && p.turn_a && g.m > most) p.rows = most;
    if (!fits && p.turn_b && g.n > most) p.cols = most;
    p.codes_a = q.workspace, p.codes_b = q.workspace + (p.turn_a ? p.rows * g.k : 0);
    used = q.turned_bytes;
  }
  if (p.blocks) {
    p.scales_a = q.workspace + used;
    p.scales_b = p.scales_a + LibraryScaleBytes(ScalesOfA(g), p.rows);
    used = p.scales_b + LibraryScaleBytes(ScalesOfB(g), p.cols) - q.workspace;
    if (used > kWorkspaceBytes) p.rows = 0;
  }
  p.rest = {q.workspace + used, kWorkspaceBytes - used};
  return p;
}

FtScaling InLibrarysOrder(const BlockScales& s) {
  return s.AreTiles() ? FT_SCALE_TILES : FT_SCALE_ROWS;
}

// The product's columns from `col` on, with b transposed if needed.
FtGemm ColumnsFrom(FtQueue* queue, const FtGemm& g, const Pieces& p, std::int64_t col) {
  FtGemm part = g;
  part.n = g.n - col < p.cols ? g.n - col : p.cols;
  part.b = static_cast<const std::byte*>(g.b) + col * (g.trans_b != 0 ? g.ldb : 1);
  if (p.turn_b) {
    TurnCodes(queue, part.b, g.ldb, g.k, part.n, p.codes_b);
    part.b = p.codes_b, part.ldb = g.k, part.trans_b = 1;
  }
  if (p.blocks) {
    part.b_scale = LibraryScales(queue, ScalesOfB(g), col, part.n, p.scales_b);
    part.b_scaling = InLibrarysOrder(ScalesOfB(g));
  }
  part.c = Later(g.c, g.c_dtype, col);
  if (g.bias != nullptr) part.bias = Later(g.bias, g.bias_dtype, col);
  if (g.aux != nullptr) part.aux = Later(g.aux, g.c_dtype, col);
  return part;
}

// Rows from `row` on of `columns`, which ColumnsFrom derived from g.
FtGemm RowsFrom(FtQueue* queue, const FtGemm& g, const FtGemm& columns, const Pieces& p,
                std::int64_t row) {
  FtGemm part = columns;
  part.m = g.m - row < p.rows ? g.m - row : p.rows;
  part.a = static_cast<const std::byte*>(g.a) + row * (g.trans_a != 0 ? 1 : g.lda);
  if (p.turn_a) {
    TurnCodes(queue, part.a, g.lda, g.k, part.m, p.codes_a);
    part.a = p.codes_a, part.lda = g.k, part.trans_a = 0;
  }
  if (p.blocks) {
    part.a_scale = LibraryScales(queue, ScalesOfA(g), row, part.m, p.scales_a);
    part.a_scaling = InLibrarysOrder(ScalesOfA(g));
  }
  part.c = Later(columns.c, g.c_dtype, row * g.ldc);
  if (g.aux != nullptr) part.aux = Later(columns.aux, g.c_dtype, row * g.ld_aux);
  return part;
}

// Columns form the outer loop, so each piece of b is transposed once. The transposition of a
// repeats per column piece; usually there is one. `begun`: whether the library has taken a piece.
FtStatus ProductInPieces(FtQueue* queue, CudaCheck& check, const FtGemm& g, bool& begun) {
  const Pieces p = PiecesOf(QueueOf(queue), g);
  if (p.rows == 0 || p.cols == 0) return FT_UNSUPPORTED;
  for (std::int64_t col = 0; col < g.n; col += p.cols) {
    const FtGemm columns = ColumnsFrom(queue, g, p, col);
    for (std::int64_t row = 0; row < g.m; row += p.rows) {
      const FtGemm part = RowsFrom(queue, g, columns, p, row);
      const FtStatus status = WithBiasInResultsFormat(queue, check, part, p.rest);
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

// Depth of the slices of a product. A weight gradient has both operands to transpose and a depth of
// all tokens: slices of which both fit the workspace whole are added up in its result, which must
// be fp32. Thin slices would add it up too often.
std::int64_t SliceOf(const CudaQueue& q, const FtGemm& g) {
  constexpr std::int64_t kThin = 1024;
  const auto may_start_anywhere = [](FtScaling scaling) {
    return scaling == FT_SCALE_TENSOR || scaling == FT_SCALE_COLUMNS;
  };
  const bool cuts = WantsDepthAlongRows(q.capability) && g.trans_a != 0 && g.trans_b == 0 &&
                    g.c_dtype == FT_F32 && g.epilogue == FT_EPILOGUE_NONE && g.bias == nullptr &&
                    may_start_anywhere(g.a_scaling) && may_start_anywhere(g.b_scaling);
  const std::int64_t room =
      q.turned_bytes / (g.m + g.n) / std::int64_t{FT_SCALE_SIDE} * std::int64_t{FT_SCALE_SIDE};
  return cuts && room >= kThin && room < g.k ? room : g.k;
}

// The part of a product from depth `first` on. Block scales lie in rows of 128 of the depth.
FtGemm SliceFrom(const FtGemm& g, std::int64_t first, std::int64_t depth) {
  FtGemm part = g;
  part.k = depth;
  part.a = static_cast<const std::byte*>(g.a) + first * g.lda;
  part.b = static_cast<const std::byte*>(g.b) + first * g.ldb;
  const std::int64_t lines = first / std::int64_t{FT_SCALE_SIDE};
  if (g.a_scaling == FT_SCALE_COLUMNS) part.a_scale = g.a_scale + lines * g.m;
  if (g.b_scaling == FT_SCALE_COLUMNS) part.b_scale = g.b_scale + lines * g.n;
  if (first > 0) part.accumulate = 1;
  return part;
}

FtStatus CodeProduct(FtQueue* queue, CudaCheck& check, const FtGemm& g) {
  const CudaQueue& q = QueueOf(queue);
  if (q.capability < 89 || (g.m | g.n | g.k) % kUnit != 0) return FT_UNSUPPORTED;
  if (HasBlocks(g) && !TakesBlocks(q, g)) return FT_UNSUPPORTED;
  bool begun = false;
  const std::int64_t slice = SliceOf(q, g);
  for (std::int64_t first = 0; first < g.k; first += slice) {
    const FtGemm part = SliceFrom(g, first, g.k - first < slice ? g.k - first : slice);
    const FtStatus status = ProductInPieces(queue, check, part, begun);
    if (status != FT_OK) return status;
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
  if (const FtStatus status = ReserveWorkspace(queue); status != FT_OK) return status;
  if (!IsCode(g.dtype)) {
    return WithBiasInResultsFormat(queue, check, g, {QueueOf(queue).workspace, kWorkspaceBytes});
  }
  FtGemm product = g;
  product.row_sums = nullptr;
  const FtStatus status = CodeProduct(queue, check, product);
  return status == FT_OK && g.row_sums != nullptr ? SumRows(queue, check, g) : status;
}

}  // namespace foretrain
