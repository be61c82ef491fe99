// Flash attention backward on tensor cores (Dao 2023, algorithm 2), without atomics. One kernel
// owns queries and computes dq and delta, the other owns keys and computes dk and dv. Both
// recompute the weights: seven products instead of the five of one kernel with atomics, but in a
// fixed order of sums. The next tile is copied while the current one is used.
//
// Score gradients omit the softmax scale; it is applied to the sums at the end.
#include "kernels/cuda/tensor/tensor_attention.cuh"

namespace foretrain {
namespace {

constexpr int kStep = 32;  // rows of a walked tile
constexpr int kColTiles = kStep / kFragmentCols;

template <int kRowTiles>
using Scores = float[kRowTiles][kColTiles][4];
template <int kRowTiles, int kDim>
using Gradients = float[kRowTiles][kDim / kFragmentCols][4];

template <int kRowTiles>
constexpr int kWarpRows = kRowTiles* kFragmentRows;
template <int kRowTiles>
constexpr int kBlockRows = kTensorWarps* kWarpRows<kRowTiles>;

// Elements of shared memory (16-bit): two tensors' rows of the block, and two stages of two tiles.
template <int kRowTiles, int kDim>
constexpr int kSharedNumbers = 2 * (kBlockRows<kRowTiles> + 2 * kStep) * PaddedRow<kDim>;

template <int kRowTiles>
FT_DEVICE void Clear(float (&sums)[kRowTiles][kColTiles][4]) {
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int j = 0; j < kColTiles; ++j) {
#pragma unroll
      for (int n = 0; n < 4; ++n) sums[i][j][n] = 0.0F;
    }
  }
}

template <int kRowTiles, int kTiles>
FT_DEVICE void ScaleAll(float scale, float (&sums)[kRowTiles][kTiles][4]) {
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
#pragma unroll
      for (int n = 0; n < 4; ++n) sums[i][j][n] *= scale;
    }
  }
}

// ---- dq

// delta = dout . out of the warp's rows, equal in the four lanes of a row. douts are its rows in
// shared memory.
template <class T, int kRowTiles, int kDim>
FT_DEVICE void MakeDelta(const AttentionCall& g, const BackwardTensors& b, std::int64_t row,
                         int rows, std::int64_t head, const T* douts,
                         float (&delta)[kRowTiles][2]) {
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int r = FragmentRow(i, h);
      const std::int64_t item = (row + r) * g.heads + head;
      float sum = 0.0F;
      for (int c = LaneOf() % 4 * kOctet; c < g.value_dim && r < rows; c += 4 * kOctet) {
        float out[kOctet], dout[kOctet];
        LoadOctet(At<T>(b.out, item, g.value_dim, c), kOctet, out);
        LoadOctet(douts + r * PaddedRow<kDim> + c, kOctet, dout);
#pragma unroll
        for (int n = 0; n < kOctet; ++n) sum += out[n] * dout[n];
      }
      delta[i][h] = JoinQuad(sum, Sum{});
      if (LaneOf() % 4 == 0 && r < rows) b.delta[item] = delta[i][h];
    }
  }
}

// The warp's rows in a block: where they lie, and how many of them exist.
struct WarpTile {
  std::int64_t row, position;
  int rows;
};

// Log-sum-exp of the warp's rows in powers of 2; 0 of rows that do not exist.
template <int kRowTiles>
FT_DEVICE void LoadLse(const AttentionCall& g, const BackwardTensors& b, const WarpTile& mine,
                       std::int64_t head, float (&lse)[kRowTiles][2]) {
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int r = FragmentRow(i, h);
      lse[i][h] = r < mine.rows ? b.lse[(mine.row + r) * g.heads + head] * kLog2E : 0.0F;
    }
  }
}

// Adds one tile of keys to dq. `stage` holds the keys, then the values. Scores are computed anew
// from lse, so that no pass stores them; a score that the mask hides has no gradient.
template <class T, int kDim, int kRowTiles>
FT_DEVICE void AddKeyTile(const AttentionCall& g, const RowTile& tile, const RowTile& of_keys,
                          std::int64_t position, const T* queries, const T* douts, const T* stage,
                          const float (&lse)[kRowTiles][2], const float (&delta)[kRowTiles][2],
                          Gradients<kRowTiles, kDim>& dq) {
  const float scale = g.scale * kLog2E;
  Scores<kRowTiles> scores, d_scores;
  Clear(scores);
  Clear(d_scores);
  MultiplyRows<kDim>(queries, stage, scores);
  MultiplyRows<kDim>(douts, stage + kStep * PaddedRow<kDim>, d_scores);
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int j = 0; j < kColTiles; ++j) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        d_scores[i][j][n] = PowerOf2(scores[i][j][n] * scale - lse[i][n / 2]) *
                            (d_scores[i][j][n] - delta[i][n / 2]);
      }
    }
  }
  if (of_keys.rows < kStep || !SeesAll(g, tile, of_keys)) {
    Hide(d_scores, 0.0F,
         [&](int r) { return KeyColumns(position + r, of_keys.position, of_keys.rows, g.window); });
  }
  std::uint32_t packed[kRowTiles][kColTiles / 2][4];
  PackRows<T>(d_scores, packed);
  MultiplyPacked(packed, stage, dq);
}

// One block per tile of queries and head. Queries and dout stay in shared memory; tiles of keys and
// values pass through two stages. dq stays in registers, so keys are added in order.
template <class T, int kDim, int kRowTiles>
__global__ void __launch_bounds__(kTensorThreads, 2)
    TensorQueryGradientKernel(AttentionCall g, BackwardTensors b) {
  FT_DYN_SHARED(T, shared);
  constexpr int kRow = PaddedRow<kDim>, kOwn = kBlockRows<kRowTiles>, kStage = 2 * kStep * kRow;
  T* const queries = shared;
  T* const douts = queries + kOwn * kRow;
  T* const stages = douts + kOwn * kRow;  // per stage: keys, then values
  const int first =
      static_cast<int>(threadIdx.x) / kWarp * kWarpRows<kRowTiles>;  // first row of the warp
  const std::int64_t head = blockIdx.y, shift = std::int64_t{blockIdx.z} * g.sample_rows;
  const std::int64_t kv_head = head / (g.heads / g.kv_heads);
  const std::int64_t dout_stride = std::int64_t{g.heads} * g.value_dim;
  const RowTile tile = TileOf(g.queries, gridDim.x - 1 - blockIdx.x, kOwn);
  const WarpTile mine{tile.row + shift + first, tile.position + first, tile.rows - first};
  TileWalk walk;
  RowTile next{};
  const auto advance = [&] {
    if (!walk.Next(g.keys, KeysSeenBy(tile.position, tile.rows, g.window), kStep)) return false;
    next = walk.Tile(g.keys, kStep);
    return true;
  };
  bool more = advance();

  int stage = 0;
  const auto copy_next = [&] {
    T* const to = stages + stage * kStage;
    const std::int64_t row = next.row + shift;
    CopyHead<kStep, kDim>(g.k, row, g.kv_stride, kv_head, g.head_dim, next.rows, to);
    CopyHead<kStep, kDim>(g.v, row, g.kv_stride, kv_head, g.value_dim, next.rows,
                          to + kStep * kRow);
  };
  const std::int64_t own = tile.row + shift;
  CopyHead<kOwn, kDim>(g.q, own, g.q_stride, head, g.head_dim, tile.rows, queries);
  CopyHead<kOwn, kDim>(b.dout, own, dout_stride, head, g.value_dim, tile.rows, douts);
  CommitCopies();
  if (more) copy_next();
  CommitCopies();
  AwaitCopies<1>();
  __syncthreads();
  float delta[kRowTiles][2], lse[kRowTiles][2];
  MakeDelta<T, kRowTiles, kDim>(g, b, mine.row, mine.rows, head, douts + first * kRow, delta);
  LoadLse(g, b, mine, head, lse);
  Gradients<kRowTiles, kDim> dq = {};
  while (more) {
    AwaitCopies<0>();
    __syncthreads();  // the other stage has also been read
    const T* const keys = stages + stage * kStage;
    const RowTile of_keys = next;
    stage ^= 1;
    more = advance();
    if (more) copy_next();
    CommitCopies();
    AddKeyTile<T, kDim, kRowTiles>(g, tile, of_keys, mine.position, queries + first * kRow,
                                   douts + first * kRow, keys, lse, delta, dq);
  }
  ScaleAll(g.scale, dq);
  T* const to = At<T>(b.dq, mine.row, b.dq_stride, head * g.head_dim);
  if (b.accumulate_dq != 0) AddRows<T>(to, b.dq_stride, mine.rows, g.head_dim, dq);
  StoreRows<T>(dq, queries + first * kRow, to, b.dq_stride, mine.rows, g.head_dim);
}

// ---- dk and dv

// Weights and score gradients from the statistics of their columns (queries): lse, then delta.
template <int kRowTiles>
FT_DEVICE void Differentiate(float scale, const float* statistics, Scores<kRowTiles>& scores,
                             Scores<kRowTiles>& d_scores) {
#pragma unroll
  for (int j = 0; j < kColTiles; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int col = FragmentCol(j, e);
      const float lse = statistics[col] * kLog2E, delta = statistics[kStep + col];
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          float& score = scores[i][j][2 * h + e];
          float& d_score = d_scores[i][j][2 * h + e];
          score = PowerOf2(score * scale - lse);
          d_score = score * (d_score - delta);
        }
      }
    }
  }
}

// Writes the warp's rows of dk or dv of one head through shared memory of its own.
template <class T, int kRowTiles, int kTiles>
FT_DEVICE void StoreKeyRows(const float (&sums)[kRowTiles][kTiles][4], T* shared,
                            const WarpTile& mine, void* to, std::int64_t stride, std::int64_t head,
                            int dim) {
  StoreRows<T>(sums, shared, At<T>(to, mine.row, stride, head * dim), stride, mine.rows, dim);
}

// Starts the copy of lse, then delta, of a tile of queries that begins at `row` of one head.
FT_DEVICE void CopyStatistics(const AttentionCall& g, const BackwardTensors& b, std::int64_t row,
                              int rows, std::int64_t head, float* to) {
  const int i = static_cast<int>(threadIdx.x);
  if (i >= 2 * kStep) return;
  const float* const from = i < kStep ? b.lse : b.delta;
  const bool is_there = i % kStep < rows;
  const std::int64_t item = (row + i % kStep) * g.heads + head;
  CopyWordAsync(to + i, is_there ? from + item : from, is_there);
}

// Adds one tile of queries to dk and dv. `stage` holds the queries, then the gradients of the
// outputs; `statistics` their lse and delta.
template <class T, int kDim, int kRowTiles>
FT_DEVICE void AddQueryTile(const AttentionCall& g, const RowTile& tile, const RowTile& of_queries,
                            std::int64_t position, const T* keys, const T* values, const T* stage,
                            const float* statistics, Gradients<kRowTiles, kDim>& dk,
                            Gradients<kRowTiles, kDim>& dv) {
  const T* const douts = stage + kStep * PaddedRow<kDim>;
  Scores<kRowTiles> scores, d_scores;
  Clear(scores);
  Clear(d_scores);
  MultiplyRows<kDim>(keys, stage, scores);
  MultiplyRows<kDim>(values, douts, d_scores);
  Differentiate<kRowTiles>(g.scale * kLog2E, statistics, scores, d_scores);
  if (of_queries.rows < kStep || !SeesAll(g, of_queries, tile)) {
    const auto seen = [&](int r) {
      return QueryColumns(position + r, of_queries.position, of_queries.rows, g.window);
    };
    Hide(scores, 0.0F, seen);
    Hide(d_scores, 0.0F, seen);
  }
  std::uint32_t packed[kRowTiles][kColTiles / 2][4];
  PackRows<T>(scores, packed);
  MultiplyPacked(packed, douts, dv);
  PackRows<T>(d_scores, packed);
  MultiplyPacked(packed, stage, dk);
}

// One block per tile of keys and key head. Scores are transposed: keys are rows and queries
// columns, so that dk and dv accumulate in the registers of the warp that owns the keys.
template <class T, int kDim, int kRowTiles>
__global__ void __launch_bounds__(kTensorThreads, 2)
    TensorKeyGradientKernel(AttentionCall g, BackwardTensors b) {
  FT_DYN_SHARED(T, shared);
  __shared__ float statistics[2][2 * kStep];  // per stage: lse, then delta
  constexpr int kRow = PaddedRow<kDim>, kOwn = kBlockRows<kRowTiles>, kStage = 2 * kStep * kRow;
  T* const keys = shared;
  T* const values = keys + kOwn * kRow;
  T* const stages = values + kOwn * kRow;  // per stage: queries, then dout
  const int first =
      static_cast<int>(threadIdx.x) / kWarp * kWarpRows<kRowTiles>;  // first row of the warp
  const std::int64_t kv_head = blockIdx.y, shift = std::int64_t{blockIdx.z} * g.sample_rows;
  const std::int64_t group = g.heads / g.kv_heads, dout_stride = g.heads * g.value_dim;
  const RowTile tile = TileOf(g.keys, blockIdx.x, kOwn);
  const WarpTile mine{tile.row + shift + first, tile.position + first, tile.rows - first};
  TileWalk walk;
  RowTile next{};
  std::int64_t head = kv_head * group;
  // Next tile of queries that see these keys, over the heads of the group one after the other.
  const auto advance = [&] {
    while (!walk.Next(g.queries, QueriesThatSee(tile.position, tile.rows, g.window), kStep)) {
      if (++head >= (kv_head + 1) * group) return false;
      walk = TileWalk();
    }
    next = walk.Tile(g.queries, kStep);
    return true;
  };
  bool more = advance();
  int stage = 0;
  const auto copy_next = [&] {
    T* const to = stages + stage * kStage;
    const std::int64_t row = next.row + shift;
    CopyHead<kStep, kDim>(g.q, row, g.q_stride, head, g.head_dim, next.rows, to);
    CopyHead<kStep, kDim>(b.dout, row, dout_stride, head, g.value_dim, next.rows,
                          to + kStep * kRow);
    CopyStatistics(g, b, row, next.rows, head, statistics[stage]);
  };
  const std::int64_t own = tile.row + shift;
  CopyHead<kOwn, kDim>(g.k, own, g.kv_stride, kv_head, g.head_dim, tile.rows, keys);
  CopyHead<kOwn, kDim>(g.v, own, g.kv_stride, kv_head, g.value_dim, tile.rows, values);
  if (more) copy_next();
  CommitCopies();
  Gradients<kRowTiles, kDim> dk = {}, dv = {};
  while (more) {
    AwaitCopies<0>();
    __syncthreads();  // the other stage has also been read
    const T* const queries = stages + stage * kStage;
    const float* const of_queries = statistics[stage];
    const RowTile now = next;
    stage ^= 1;
    more = advance();
    if (more) copy_next();
    CommitCopies();
    AddQueryTile<T, kDim, kRowTiles>(g, tile, now, mine.position, keys + first * kRow,
                                     values + first * kRow, queries, of_queries, dk, dv);
  }
  AwaitCopies<0>();
  __syncthreads();  // without a tile, keys and values have not been waited for
  ScaleAll(g.scale, dk);
  StoreKeyRows<T>(dk, keys + first * kRow, mine, b.dk, b.dkv_stride, kv_head, g.head_dim);
  StoreKeyRows<T>(dv, values + first * kRow, mine, b.dv, b.dkv_stride, kv_head, g.value_dim);
}

// ---- launches

// Every device with these tensor cores gives a block this much shared memory.
constexpr std::int64_t kMinShared = 99 * 1024;

template <class T, int kDim, int kRowTiles>
FtStatus LaunchQueries(FtQueue* queue, const char* name, const AttentionCall& call,
                       const BackwardTensors& tensors, unsigned samples) {
  constexpr std::int64_t kBytes = kSharedNumbers<kRowTiles, kDim> * std::int64_t{sizeof(T)};
  const auto kernel = &TensorQueryGradientKernel<T, kDim, kRowTiles>;
  const std::int64_t tiles = TilesOf(call.queries, kBlockRows<kRowTiles>);
  const FtStatus status = AllowShared(queue, name, reinterpret_cast<const void*>(kernel), kBytes);
  if (status != FT_OK || tiles == 0) return status;
  FT_LAUNCH(kernel, dim3(Blocks(tiles, 1), static_cast<unsigned>(call.heads), samples),
            dim3(kTensorThreads), kBytes, StreamOf(queue), call, tensors);
  return FT_OK;
}

template <class T, int kDim, int kRowTiles>
FtStatus LaunchKeys(FtQueue* queue, const char* name, const AttentionCall& call,
                    const BackwardTensors& tensors, unsigned samples) {
  constexpr std::int64_t kBytes = kSharedNumbers<kRowTiles, kDim> * std::int64_t{sizeof(T)};
  const auto kernel = &TensorKeyGradientKernel<T, kDim, kRowTiles>;
  const std::int64_t tiles = TilesOf(call.keys, kBlockRows<kRowTiles>);
  const FtStatus status = AllowShared(queue, name, reinterpret_cast<const void*>(kernel), kBytes);
  if (status != FT_OK || tiles == 0) return status;
  FT_LAUNCH(kernel, dim3(Blocks(tiles, 1), static_cast<unsigned>(call.kv_heads), samples),
            dim3(kTensorThreads), kBytes, StreamOf(queue), call, tensors);
  return FT_OK;
}

}  // namespace

FtStatus TensorAttentionBackward(FtQueue* queue, CudaCheck& check, const char* name,
                                 const AttentionCall& call, const BackwardTensors& tensors,
                                 std::int64_t batch) {
  const auto samples = static_cast<unsigned>(batch);
  FtStatus status = FT_OK;
  WithTensorHead(call, [&](auto type, auto dim) {
    using T = decltype(type);
    constexpr int kDim = decltype(dim)::value;
    // 32 rows per warp halve the reads of tiles, if shared memory (queries) and registers (keys)
    // suffice. A row's sums do not depend on the choice.
    constexpr std::int64_t kWide = kSharedNumbers<2, kDim> * std::int64_t{sizeof(T)};
    bool wide = true;
    if constexpr (kWide > kMinShared) wide = kWide <= QueueOf(queue).shared_bytes;
    if (wide) {
      status = LaunchQueries<T, kDim, 2>(queue, name, call, tensors, samples);
    } else if constexpr (kWide > kMinShared) {
      status = LaunchQueries<T, kDim, 1>(queue, name, call, tensors, samples);
    }
    constexpr int kKeyRows = kDim <= 64 ? 2 : 1;
    if (status == FT_OK) {
      status = LaunchKeys<T, kDim, kKeyRows>(queue, name, call, tensors, samples);
    }
  });
  return status != FT_OK ? status : check.Launched();
}

}  // namespace foretrain
