// Flash attention backward on tensor cores (Dao 2023, algorithm 2), without atomics: one kernel
// follows the queries and makes dq and delta, the other follows the keys and makes dk and dv. Both
// compute the weights anew: seven products for the five of one kernel with atomics, in a fixed
// order of sums. The next tile arrives while this one is computed with.
//
// Gradients of scores are left without the softmax's scale, which the sums get at their end.
#include "kernels/cuda/tensor_attention.cuh"

namespace foretrain {
namespace {

constexpr int kStep = 32;  // rows of the tiles that a block walks
constexpr int kColTiles = kStep / kFragmentCols;

template <int kRowTiles>
using Scores = float[kRowTiles][kColTiles][4];
template <int kRowTiles, int kDim>
using Gradients = float[kRowTiles][kDim / kFragmentCols][4];

template <int kRowTiles>
constexpr int kWarpRows = kRowTiles* kFragmentRows;
template <int kRowTiles>
constexpr int kBlockRows = kTensorWarps* kWarpRows<kRowTiles>;

// Shared memory, in numbers of 16 bits: two tensors' rows of the block, and of two tiles.
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

// dout . out of the warp's rows, alike in the four lanes of a row. douts: its rows in shared
// memory.
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

template <class T, int kDim, int kRowTiles>
__global__ void __launch_bounds__(kTensorThreads, 2)
    TensorQueryGradientKernel(AttentionCall g, BackwardTensors b) {
  FT_DYN_SHARED(T, shared);
  constexpr int kRow = PaddedRow<kDim>, kOwn = kBlockRows<kRowTiles>, kStage = 2 * kStep * kRow;
  T* const queries = shared;
  T* const douts = queries + kOwn * kRow;
  T* const stages = douts + kOwn * kRow;  // of each: keys, then values
  const int first = static_cast<int>(threadIdx.x) / kWarp * kWarpRows<kRowTiles>;  // of the warp
  const std::int64_t head = blockIdx.y, shift = std::int64_t{blockIdx.z} * g.sample_rows;
  const std::int64_t kv_head = head / (g.heads / g.kv_heads);
  const std::int64_t dout_stride = std::int64_t{g.heads} * g.value_dim;
  const RowTile tile = TileOf(g.queries, gridDim.x - 1 - blockIdx.x, kOwn);
  const std::int64_t row = tile.row + shift + first, position = tile.position + first;
  const int rows = tile.rows - first;
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
    CopyTile<kStep, kDim, kTensorThreads>(
        At<T>(g.k, next.row + shift, g.kv_stride, kv_head * g.head_dim), g.kv_stride, next.rows,
        g.head_dim, stages + stage * kStage);
    CopyTile<kStep, kDim, kTensorThreads>(
        At<T>(g.v, next.row + shift, g.kv_stride, kv_head * g.value_dim), g.kv_stride, next.rows,
        g.value_dim, stages + stage * kStage + kStep * kRow);
  };
  CopyTile<kOwn, kDim, kTensorThreads>(At<T>(g.q, tile.row + shift, g.q_stride, head * g.head_dim),
                                       g.q_stride, tile.rows, g.head_dim, queries);
  CopyTile<kOwn, kDim, kTensorThreads>(
      At<T>(b.dout, tile.row + shift, dout_stride, head * g.value_dim), dout_stride, tile.rows,
      g.value_dim, douts);
  CommitCopies();
  if (more) copy_next();
  CommitCopies();
  AwaitCopies<1>();
  __syncthreads();
  float delta[kRowTiles][2], lse[kRowTiles][2];
  MakeDelta<T, kRowTiles, kDim>(g, b, row, rows, head, douts + first * kRow, delta);
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int r = FragmentRow(i, h);
      lse[i][h] = r < rows ? b.lse[(row + r) * g.heads + head] * kLog2E : 0.0F;
    }
  }
  const float scale = g.scale * kLog2E;
  Gradients<kRowTiles, kDim> dq = {};
  while (more) {
    AwaitCopies<0>();
    __syncthreads();  // and the other stage has been read
    const T* const keys = stages + stage * kStage;
    const RowTile of_keys = next;
    stage ^= 1;
    more = advance();
    if (more) copy_next();
    CommitCopies();
    Scores<kRowTiles> scores, d_scores;
    Clear(scores);
    Clear(d_scores);
    MultiplyRows<kDim>(queries + first * kRow, keys, scores);
    MultiplyRows<kDim>(douts + first * kRow, keys + kStep * kRow, d_scores);
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
      Hide(d_scores, 0.0F, [&](int r) {
        return KeyColumns(position + r, of_keys.position, of_keys.rows, g.window);
      });
    }
    std::uint32_t packed[kRowTiles][kColTiles / 2][4];
    PackRows<T>(d_scores, packed);
    MultiplyPacked(packed, keys, dq);
  }
  ScaleAll(g.scale, dq);
  T* const to = At<T>(b.dq, row, b.dq_stride, head * g.head_dim);
  if (b.accumulate_dq != 0) AddRows<T>(to, b.dq_stride, rows, g.head_dim, dq);
  StoreRows<T>(dq, queries + first * kRow, to, b.dq_stride, rows, g.head_dim);
}

// ---- dk and dv

// Weights and gradients of scores by their columns' statistics: lse, then delta.
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

template <class T, int kDim, int kRowTiles>
__global__ void __launch_bounds__(kTensorThreads, 2)
    TensorKeyGradientKernel(AttentionCall g, BackwardTensors b) {
  FT_DYN_SHARED(T, shared);
  __shared__ float statistics[2][2 * kStep];  // of each stage: lse, then delta
  constexpr int kRow = PaddedRow<kDim>, kOwn = kBlockRows<kRowTiles>, kStage = 2 * kStep * kRow;
  T* const keys = shared;
  T* const values = keys + kOwn * kRow;
  T* const stages = values + kOwn * kRow;  // of each: queries, then gradients of outputs
  const int first = static_cast<int>(threadIdx.x) / kWarp * kWarpRows<kRowTiles>;  // of the warp
  const std::int64_t kv_head = blockIdx.y, shift = std::int64_t{blockIdx.z} * g.sample_rows;
  const std::int64_t group = g.heads / g.kv_heads;
  const std::int64_t dout_stride = std::int64_t{g.heads} * g.value_dim;
  const RowTile tile = TileOf(g.keys, blockIdx.x, kOwn);
  const std::int64_t position = tile.position + first;
  TileWalk walk;
  RowTile next{};
  std::int64_t head = kv_head * group;
  // The tiles of queries that see these keys, of one head of the group after the other.
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
    CopyTile<kStep, kDim, kTensorThreads>(
        At<T>(g.q, next.row + shift, g.q_stride, head * g.head_dim), g.q_stride, next.rows,
        g.head_dim, stages + stage * kStage);
    CopyTile<kStep, kDim, kTensorThreads>(
        At<T>(b.dout, next.row + shift, dout_stride, head * g.value_dim), dout_stride, next.rows,
        g.value_dim, stages + stage * kStage + kStep * kRow);
    const int i = static_cast<int>(threadIdx.x);
    if (i >= 2 * kStep) return;
    const float* const from = i < kStep ? b.lse : b.delta;
    const bool is_there = i % kStep < next.rows;
    const std::int64_t item = (next.row + shift + i % kStep) * g.heads + head;
    CopyWordAsync(&statistics[stage][i], is_there ? from + item : from, is_there);
  };
  CopyTile<kOwn, kDim, kTensorThreads>(
      At<T>(g.k, tile.row + shift, g.kv_stride, kv_head * g.head_dim), g.kv_stride, tile.rows,
      g.head_dim, keys);
  CopyTile<kOwn, kDim, kTensorThreads>(
      At<T>(g.v, tile.row + shift, g.kv_stride, kv_head * g.value_dim), g.kv_stride, tile.rows,
      g.value_dim, values);
  if (more) copy_next();
  CommitCopies();
  const float scale = g.scale * kLog2E;
  Gradients<kRowTiles, kDim> dk = {}, dv = {};
  while (more) {
    AwaitCopies<0>();
    __syncthreads();  // and the other stage has been read
    const T* const queries = stages + stage * kStage;
    const float* const of_queries = statistics[stage];
    const RowTile now = next;
    stage ^= 1;
    more = advance();
    if (more) copy_next();
    CommitCopies();
    Scores<kRowTiles> scores, d_scores;
    Clear(scores);
    Clear(d_scores);
    MultiplyRows<kDim>(keys + first * kRow, queries, scores);
    MultiplyRows<kDim>(values + first * kRow, queries + kStep * kRow, d_scores);
    Differentiate<kRowTiles>(scale, of_queries, scores, d_scores);
    if (now.rows < kStep || !SeesAll(g, now, tile)) {
      const auto seen = [&](int r) {
        return QueryColumns(position + r, now.position, now.rows, g.window);
      };
      Hide(scores, 0.0F, seen);
      Hide(d_scores, 0.0F, seen);
    }
    std::uint32_t packed[kRowTiles][kColTiles / 2][4];
    PackRows<T>(scores, packed);
    MultiplyPacked(packed, queries + kStep * kRow, dv);
    PackRows<T>(d_scores, packed);
    MultiplyPacked(packed, queries, dk);
  }
  AwaitCopies<0>();
  __syncthreads();  // keys and values may not have been waited for
  ScaleAll(g.scale, dk);
  const std::int64_t row = tile.row + shift + first;
  const int rows = tile.rows - first;
  StoreRows<T>(dk, keys + first * kRow, At<T>(b.dk, row, b.dkv_stride, kv_head * g.head_dim),
               b.dkv_stride, rows, g.head_dim);
  StoreRows<T>(dv, values + first * kRow, At<T>(b.dv, row, b.dkv_stride, kv_head * g.value_dim),
               b.dkv_stride, rows, g.value_dim);
}

// ---- launches

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
    // 32 rows a warp halve what it reads of tiles; shared memory and registers bound them. A row's
    // sums are the same either way.
    constexpr std::int64_t kWide = kSharedNumbers<2, kDim> * std::int64_t{sizeof(T)};
    status = kWide <= QueueOf(queue).shared_bytes
                 ? LaunchQueries<T, kDim, 2>(queue, name, call, tensors, samples)
                 : LaunchQueries<T, kDim, 1>(queue, name, call, tensors, samples);
    constexpr int kKeyRows = kDim <= 64 ? 2 : 1;
    if (status == FT_OK) {
      status = LaunchKeys<T, kDim, kKeyRows>(queue, name, call, tensors, samples);
    }
  });
  return status != FT_OK ? status : check.Launched();
}

}  // namespace foretrain
