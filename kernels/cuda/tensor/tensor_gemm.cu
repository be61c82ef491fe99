// GEMM and expert products on tensor cores. A block of four warps computes 128 x 128 elements, each
// warp 64 x 64, in steps of 64 of depth. The next step is copied meanwhile. Operands keep their
// stored orientation in shared memory, with the depth along rows or across them.
#include "kernels/cuda/tensor/tensor_gemm.cuh"

#include "kernels/cuda/own/activation.cuh"
#include "kernels/cuda/own/experts/expert_runs.cuh"
#include "kernels/cuda/tensor/tensor_core.cuh"

namespace foretrain {
namespace {

// Larger tiles read operands less often: 128 x 128 reads each element once per 128 rows or columns.
// The sums of a warp tile fill 128 registers per thread.
constexpr int kTile = 128;
constexpr int kDepth = 64;
constexpr int kThreads = 128;
constexpr int kWarpTile = 64;
constexpr int kRowTiles = kWarpTile / kFragmentRows;
constexpr int kColTiles = kWarpTile / kFragmentCols;

using Sums = float[kRowTiles][kColTiles][4];

// Elements of an operand's tile: [kTile][kDepth] if its rows run along the depth, else
// [kDepth][kTile].
template <bool kDeep>
constexpr int kOperand = kDeep ? kTile* PaddedRow<kDepth> : kDepth* PaddedRow<kTile>;
template <bool kLeftDeep, bool kRightDeep>
constexpr int kStage = kOperand<kLeftDeep> + kOperand<kRightDeep>;

// One side of a product, stored [rows][depth] if kDeep, else [depth][rows].
template <class T>
struct Operand {
  const T* at;
  std::int64_t stride;
  int rows;  // rows of this tile that exist
};

FT_DEVICE int Least(std::int64_t a, int b) { return a < b ? static_cast<int>(a) : b; }

// Starts the copy of one step of depth; missing rows and depth are filled with zeros.
template <bool kDeep, class T>
FT_DEVICE void CopyOperand(const Operand<T>& from, std::int64_t depth, std::int64_t all, T* to) {
  const int left = Least(all - depth, kDepth);
  if constexpr (kDeep) {
    CopyTile<kTile, kDepth, kThreads>(from.at + depth, from.stride, from.rows, left, to);
  } else {
    CopyTile<kDepth, kTile, kThreads>(from.at + depth * from.stride, from.stride, left, from.rows,
                                      to);
  }
}

// Loads 16 rows and 16 of depth of a tile, as one fragment of the left side.
template <bool kDeep, class T>
FT_DEVICE void LoadLeft(const T* tile, int row, int depth, std::uint32_t (&to)[4]) {
  if constexpr (kDeep) {
    const MatrixRow at = DownFirst(LaneOf());
    LoadMatrices(tile + (row + at.row) * PaddedRow<kDepth> + depth + at.col, to);
  } else {
    const MatrixRow at = AcrossFirst(LaneOf());
    LoadMatricesTransposed(tile + (depth + at.row) * PaddedRow<kTile> + row + at.col, to);
  }
}
// The same as two fragments of the right side, eight rows each.
template <bool kDeep, class T>
FT_DEVICE void LoadRight(const T* tile, int row, int depth, std::uint32_t (&to)[4]) {
  if constexpr (kDeep) {
    const MatrixRow at = AcrossFirst(LaneOf());
    LoadMatrices(tile + (row + at.row) * PaddedRow<kDepth> + depth + at.col, to);
  } else {
    const MatrixRow at = DownFirst(LaneOf());
    LoadMatricesTransposed(tile + (depth + at.row) * PaddedRow<kTile> + row + at.col, to);
  }
}

// First row and column of the warp's quarter of the tile.
FT_DEVICE int WarpRow() { return static_cast<int>(threadIdx.x) / kWarp / 2 * kWarpTile; }
FT_DEVICE int WarpCol() { return static_cast<int>(threadIdx.x) / kWarp % 2 * kWarpTile; }

// sums += the warp's part of left right^T over `depth`. All threads call it, and shared memory is
// free when it returns. Two stages: one is multiplied while the other is filled. Depth runs in
// order, so an element's bits do not depend on its tile.
template <bool kLeftDeep, bool kRightDeep, class T>
FT_DEVICE void AddProduct(const Operand<T>& left, const Operand<T>& right, std::int64_t depth,
                          T* shared, Sums& sums) {
  constexpr int kBoth = kStage<kLeftDeep, kRightDeep>;
  const auto copy = [&](std::int64_t from, int stage) {
    CopyOperand<kLeftDeep>(left, from, depth, shared + stage * kBoth);
    CopyOperand<kRightDeep>(right, from, depth, shared + stage * kBoth + kOperand<kLeftDeep>);
  };
  if (depth > 0) copy(0, 0);
  CommitCopies();
  int stage = 0;
  for (std::int64_t done = 0; done < depth; done += kDepth) {
    AwaitCopies<0>();
    __syncthreads();  // the other stage has also been read
    if (done + kDepth < depth) copy(done + kDepth, stage ^ 1);
    CommitCopies();
    const T* const of_left = shared + stage * kBoth;
    const T* const of_right = of_left + kOperand<kLeftDeep>;
    stage ^= 1;
#pragma unroll
    for (int k = 0; k < kDepth; k += kFragmentDepth) {
      std::uint32_t rows[kRowTiles][4];
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        LoadLeft<kLeftDeep>(of_left, WarpRow() + i * kFragmentRows, k, rows[i]);
      }
#pragma unroll
      for (int j = 0; j < kColTiles; j += 2) {
        std::uint32_t cols[4];
        LoadRight<kRightDeep>(of_right, WarpCol() + j * kFragmentCols, k, cols);
#pragma unroll
        for (int i = 0; i < kRowTiles; ++i) {
          MultiplyTile<T>(rows[i], cols[0], cols[1], sums[i][j]);
          MultiplyTile<T>(rows[i], cols[2], cols[3], sums[i][j + 1]);
        }
      }
    }
  }
  __syncthreads();
}

// Destination of a tile of sums: c (+)= epilogue of scale * sums + bias.
struct Result {
  void* c;           // the tile's first element
  const void* bias;  // the tile's first column; may be NULL
  std::int64_t stride;
  int rows, cols;  // that exist
  FtDtype dtype, bias_dtype;
  std::int32_t accumulate;
  float scale;
  FtEpilogue epilogue;
  FtActivation activation;
  void* aux;  // the tile's first element; may be NULL
  std::int64_t aux_stride;
};

// Applies the epilogue to eight values at (row, col) of the tile.
FT_DEVICE void End(const Result& r, int row, int col, float (&y)[kOctet]) {
  const std::int64_t at = row * r.aux_stride + col, left = r.cols - col;
  float of_aux[kOctet];
  if (r.epilogue == FT_EPILOGUE_ACTIVATE) {
    if (r.aux != nullptr) StoreAnyOctet(r.aux, r.dtype, at, left, y);
  } else {
    LoadAnyOctet(r.aux, r.dtype, at, left, of_aux);
  }
#pragma unroll
  for (int n = 0; n < kOctet; ++n) {
    y[n] = r.epilogue == FT_EPILOGUE_ACTIVATE ? Activated(y[n], r.activation)
                                              : y[n] * ActivationSlope(of_aux[n], r.activation);
  }
}

constexpr int kSumsRow = kTile + 4;  // fp32 values per row of the tile in shared memory

// Stores through shared memory, so that rows are written in 16-byte words.
FT_DEVICE void Store(const Result& r, const Sums& sums, void* shared) {
  auto* const tile = static_cast<float*>(shared);
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int j = 0; j < kColTiles; ++j) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const int row = WarpRow() + i * kFragmentRows + n / 2 * 8 + LaneOf() / 4;
        const int col = WarpCol() + j * kFragmentCols + LaneOf() % 4 * 2 + n % 2;
        tile[row * kSumsRow + col] = sums[i][j][n];
      }
    }
  }
  __syncthreads();
  constexpr int kOctets = kTile / kOctet;
#pragma unroll 1
  for (int item = static_cast<int>(threadIdx.x); item < kTile * kOctets; item += kThreads) {
    const int row = item / kOctets, col = item % kOctets * kOctet;
    if (row >= r.rows || col >= r.cols) continue;
    const std::int64_t at = row * r.stride + col, left = r.cols - col;
    float x[kOctet], add[kOctet];
    LoadOctet(tile + row * kSumsRow + col, kOctet, x);
#pragma unroll
    for (int n = 0; n < kOctet; ++n) x[n] *= r.scale;
    if (r.bias != nullptr) {
      LoadAnyOctet(r.bias, r.bias_dtype, col, left, add);
#pragma unroll
      for (int n = 0; n < kOctet; ++n) x[n] += add[n];
    }
    if (r.accumulate != 0) {
      LoadAnyOctet(r.c, r.dtype, at, left, add);
#pragma unroll
      for (int n = 0; n < kOctet; ++n) x[n] += add[n];
    }
    if (r.epilogue != FT_EPILOGUE_NONE) End(r, row, col, x);
    StoreAnyOctet(r.c, r.dtype, at, left, x);
  }
}

// Rows [first, first + kTile) of a side that has `rows` of them.
template <bool kDeep, class T>
FT_DEVICE Operand<T> Side(const void* at, std::int64_t stride, std::int64_t first,
                          std::int64_t rows) {
  return {static_cast<const T*>(at) + (kDeep ? first * stride : first), stride,
          Least(rows - first, kTile)};
}

// A plain result without bias and epilogue; callers set what they need.
FT_DEVICE Result ResultOf(void* c, FtDtype dtype, std::int64_t stride, std::int64_t row,
                          std::int64_t col, std::int64_t rows, std::int64_t cols,
                          std::int32_t accumulate) {
  const std::int64_t at = row * stride + col;
  return {const_cast<char*>(Shifted(c, dtype, at)),
          nullptr,
          stride,
          Least(rows - row, kTile),
          Least(cols - col, kTile),
          dtype,
          FT_F32,
          accumulate,
          1.0F,
          FT_EPILOGUE_NONE,
          FT_GELU_TANH,
          nullptr,
          0};
}

// ---- GEMM

// One block per tile of c. `first_row` continues a launch whose rows exceed the grid's limit.
template <class T, bool kLeftDeep, bool kRightDeep>
__global__ void __launch_bounds__(kThreads, 2) TensorGemmKernel(FtGemm g, std::int64_t first_row) {
  FT_DYN_SHARED(T, shared);
  const std::int64_t row = first_row + std::int64_t{blockIdx.y} * kTile;
  const std::int64_t col = std::int64_t{blockIdx.x} * kTile;
  Sums sums = {};
  AddProduct<kLeftDeep, kRightDeep>(Side<kLeftDeep, T>(g.a, g.lda, row, g.m),
                                    Side<kRightDeep, T>(g.b, g.ldb, col, g.n), g.k, shared, sums);
  Result result = ResultOf(g.c, g.c_dtype, g.ldc, row, col, g.m, g.n, g.accumulate);
  if (g.bias != nullptr) {
    result.bias = Shifted(g.bias, g.bias_dtype, col);
    result.bias_dtype = g.bias_dtype;
  }
  result.scale = g.scale;
  if (g.epilogue != FT_EPILOGUE_NONE) {
    result.epilogue = g.epilogue, result.activation = g.activation, result.aux_stride = g.ld_aux;
    if (g.aux != nullptr) {
      result.aux = const_cast<char*>(Shifted(g.aux, g.c_dtype, row * g.ld_aux + col));
    }
  }
  Store(result, sums, shared);
}

// ---- expert products

// FORWARD: c[rows, out] = a[rows, in] b[out, in]^T. INPUT: c[rows, in] = a[rows, out] b[out, in].
template <class T, bool kForward>
__global__ void __launch_bounds__(kThreads, 2) TensorExpertRowsKernel(FtGroupedGemm g) {
  FT_DYN_SHARED(T, shared);
  RunSearch search;
  const RunTile tile = FindRunTile<kTile>(g, blockIdx.y, 1, search);
  if (tile.rows.count == 0) return;
  const std::int64_t row = tile.rows.first + std::int64_t{tile.tile} * kTile;
  const std::int64_t end = tile.rows.first + tile.rows.count;
  const std::int64_t depth = kForward ? g.in : g.out, cols = kForward ? g.out : g.in;
  const std::int64_t col = std::int64_t{blockIdx.x} * kTile;
  const T* const weights =
      static_cast<const T*>(g.b) + tile.run % static_cast<unsigned>(g.experts) * g.out * g.in;
  Sums sums = {};
  AddProduct<true, kForward>(Side<true, T>(g.a, depth, row, end),
                             Side<kForward, T>(weights, g.in, col, cols), depth, shared, sums);
  Store(ResultOf(g.c, g.c_dtype, cols, row, col, end, cols, g.accumulate), sums, shared);
}

// WEIGHT: c[out, in] of expert blockIdx.z is the sum over its runs of a[rows, out]^T b[rows, in].
// Runs are added in order in registers.
template <class T>
__global__ void __launch_bounds__(kThreads, 2) TensorExpertWeightKernel(FtGroupedGemm g) {
  FT_DYN_SHARED(T, shared);
  const std::int64_t row = std::int64_t{blockIdx.y} * kTile;
  const std::int64_t col = std::int64_t{blockIdx.x} * kTile;
  Sums sums = {};
  for (unsigned run = blockIdx.z; run < g.groups; run += static_cast<unsigned>(g.experts)) {
    const GroupRows rows = RowsBefore(g, run);
    if (rows.count == 0) continue;
    AddProduct<false, false>(
        Side<false, T>(static_cast<const T*>(g.a) + rows.first * g.out, g.out, row, g.out),
        Side<false, T>(static_cast<const T*>(g.b) + rows.first * g.in, g.in, col, g.in), rows.count,
        shared, sums);
  }
  Store(
      ResultOf(const_cast<char*>(Shifted(g.c, g.c_dtype, std::int64_t{blockIdx.z} * g.out * g.in)),
               g.c_dtype, g.in, row, col, g.out, g.in, g.accumulate),
      sums, shared);
}

// ---- launches

constexpr std::int64_t kMaxTiles = 65535;  // limit of the grid's y dimension

template <class T, bool kLeftDeep, bool kRightDeep>
constexpr std::int64_t kSharedBytes =
    2 * std::int64_t{kStage<kLeftDeep, kRightDeep>} * std::int64_t{sizeof(T)};

// The tile of sums reuses the operands' shared memory.
static_assert(kTile * kSumsRow * 4 <= kSharedBytes<Bf16, false, false> &&
              kSharedBytes<Bf16, false, false> <= kSharedBytes<Bf16, true, true>);

// Splits the rows into several launches where the grid's y dimension is too small.
template <class T, bool kLeftDeep, bool kRightDeep>
FtStatus LaunchGemm(FtQueue* queue, FtGemm g) {
  const auto kernel = &TensorGemmKernel<T, kLeftDeep, kRightDeep>;
  constexpr std::int64_t kBytes = kSharedBytes<T, kLeftDeep, kRightDeep>;
  const FtStatus status = AllowShared(queue, "gemm", reinterpret_cast<const void*>(kernel), kBytes);
  if (status != FT_OK) return status;
  g.scale = g.scale == 0.0F ? 1.0F : g.scale;
  for (std::int64_t row = 0; row < g.m; row += kMaxTiles * kTile) {
    const std::int64_t left = g.m - row;
    const std::int64_t rows = left < kMaxTiles * kTile ? left : kMaxTiles * kTile;
    FT_LAUNCH(kernel, dim3(Blocks(g.n, kTile), Blocks(rows, kTile)), dim3(kThreads), kBytes,
              StreamOf(queue), g, row);
  }
  return FT_OK;
}

// Four variants by the stored orientation of both sides.
template <class T>
FtStatus GemmOf(FtQueue* queue, const FtGemm& g) {
  const bool left_deep = g.trans_a == 0, right_deep = g.trans_b != 0;
  if (left_deep && right_deep) return LaunchGemm<T, true, true>(queue, g);
  if (left_deep) return LaunchGemm<T, true, false>(queue, g);
  if (right_deep) return LaunchGemm<T, false, true>(queue, g);
  return LaunchGemm<T, false, false>(queue, g);
}

// Counts of rows are on the device, so the grid covers the most tiles that any counts can need.
// Blocks without rows return at once.
template <class T, bool kForward>
FtStatus LaunchExpertRows(FtQueue* queue, CudaCheck& check, const FtGroupedGemm& g) {
  const auto kernel = &TensorExpertRowsKernel<T, kForward>;
  constexpr std::int64_t kBytes = kSharedBytes<T, true, kForward>;
  const std::int64_t tiles = MostRunTiles(g, kTile);
  check.AtMost("tiles of rows", tiles, kMaxTiles);
  if (!check.ok() || tiles == 0) return check.status();
  const FtStatus status =
      AllowShared(queue, "grouped_gemm", reinterpret_cast<const void*>(kernel), kBytes);
  if (status != FT_OK) return status;
  FT_LAUNCH(kernel, dim3(Blocks(kForward ? g.out : g.in, kTile), static_cast<unsigned>(tiles)),
            dim3(kThreads), kBytes, StreamOf(queue), g);
  return FT_OK;
}

// One block per tile of an expert's weight gradient; the grid's z dimension is the expert.
template <class T>
FtStatus LaunchExpertWeight(FtQueue* queue, const FtGroupedGemm& g) {
  const auto kernel = &TensorExpertWeightKernel<T>;
  constexpr std::int64_t kBytes = kSharedBytes<T, false, false>;
  const FtStatus status =
      AllowShared(queue, "grouped_gemm", reinterpret_cast<const void*>(kernel), kBytes);
  if (status != FT_OK) return status;
  FT_LAUNCH(kernel,
            dim3(Blocks(g.in, kTile), Blocks(g.out, kTile), static_cast<unsigned>(g.experts)),
            dim3(kThreads), kBytes, StreamOf(queue), g);
  return FT_OK;
}

template <class T>
FtStatus GroupedOf(FtQueue* queue, CudaCheck& check, const FtGroupedGemm& g) {
  if (g.mode == FT_GROUPED_WEIGHT) return LaunchExpertWeight<T>(queue, g);
  return g.mode == FT_GROUPED_FORWARD ? LaunchExpertRows<T, true>(queue, check, g)
                                      : LaunchExpertRows<T, false>(queue, check, g);
}

// 16-byte asynchronous copies need aligned addresses; tensor cores need 16-bit types and compute
// capability 8.0.
bool TakesOctets(FtQueue* queue, FtDtype dtype, const void* a, const void* b) {
  const auto bits = reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b);
  return (dtype == FT_BF16 || dtype == FT_F16) && (bits & 15U) == 0 &&
         QueueOf(queue).capability >= 80;
}

}  // namespace

// Rows of both operands must be whole 16-byte words.
bool TakesTensorCores(FtQueue* queue, const FtGemm& g) {
  return TakesOctets(queue, g.dtype, g.a, g.b) && AreOctets(g.trans_a != 0 ? g.m : g.k, g.lda) &&
         AreOctets(g.trans_b != 0 ? g.k : g.n, g.ldb);
}
bool TakesTensorCores(FtQueue* queue, const FtGroupedGemm& g) {
  return TakesOctets(queue, g.dtype, g.a, g.b) && AreOctets(g.in, g.in) && AreOctets(g.out, g.out);
}

FtStatus TensorGemm(FtQueue* queue, CudaCheck& check, const FtGemm& g) {
  const FtStatus status = g.dtype == FT_BF16 ? GemmOf<Bf16>(queue, g) : GemmOf<Fp16>(queue, g);
  return status != FT_OK ? status : check.Launched();
}

FtStatus TensorGroupedGemm(FtQueue* queue, CudaCheck& check, const FtGroupedGemm& g) {
  const FtStatus status =
      g.dtype == FT_BF16 ? GroupedOf<Bf16>(queue, check, g) : GroupedOf<Fp16>(queue, check, g);
  return status != FT_OK ? status : check.Launched();
}

}  // namespace foretrain
