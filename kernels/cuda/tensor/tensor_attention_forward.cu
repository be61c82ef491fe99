// Flash attention forward on tensor cores (Dao 2023, algorithm 1). A block of four warps computes
// 128 queries of one head. The next keys are copied while weights multiply values, and values are
// copied while scores are computed.
#include "kernels/cuda/tensor/tensor_attention.cuh"

namespace foretrain {
namespace {

constexpr int kRowTiles = 2;  // 32 queries per warp: each load of a key serves two products
constexpr int kWarpQueries = kRowTiles * kFragmentRows;
constexpr int kQueries = kTensorWarps * kWarpQueries;

// Keys per tile: as many as the registers hold scores of, after the output sums.
template <int kDim>
constexpr int kKeys = kDim <= 96 ? 64 : 32;
template <int kDim>
constexpr int kKeyTiles = kKeys<kDim> / kFragmentCols;

// State of a warp's rows; scores are in units of log2. `most` is a row's maximum, equal in its four
// lanes. `sum` is the lane's part of the sum of 2^(score - most). `out` is the sum of weighted
// values.
template <int kDim>
struct RunningRows {
  float most[kRowTiles][2], sum[kRowTiles][2];
  float out[kRowTiles][kDim / kFragmentCols][4];
};

template <int kDim>
using Scores = float[kRowTiles][kKeyTiles<kDim>][4];

// First row and position of a warp, and the number of its rows that exist.
struct WarpRows {
  std::int64_t row, position;
  int rows;
};

// Starts empty, or from an earlier part's result: with log-sum lse it counts as one key with score
// lse and sum 1. Rows of that part that saw no key are cleared.
template <class T, int kDim>
FT_DEVICE void Begin(const AttentionCall& g, const ForwardOutputs& o, const WarpRows& mine,
                     std::int64_t head, RunningRows<kDim>& state) {
  state = {};
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int r = FragmentRow(i, h);
      float lse = -INFINITY;
      if (o.merge != 0 && r < mine.rows) lse = o.lse[(mine.row + r) * g.heads + head];
      state.most[i][h] = lse * kLog2E;
      state.sum[i][h] = lse > -INFINITY && LaneOf() % 4 == 0 ? 1.0F : 0.0F;
    }
  }
  if (o.merge == 0) return;
  const std::int64_t stride = std::int64_t{g.heads} * g.value_dim;
  AddRows<T>(At<T>(o.out, mine.row, stride, head * g.value_dim), stride, mine.rows, g.value_dim,
             state.out);
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (state.most[i][h] > -INFINITY || state.most[i][h] != state.most[i][h]) continue;
#pragma unroll
      for (int j = 0; j < kDim / kFragmentCols; ++j) {
        state.out[i][j][2 * h] = state.out[i][j][2 * h + 1] = 0.0F;
      }
    }
  }
}

// Turns scores into weights and rescales the earlier sums to the new maximum. A NaN score makes its
// row's sum NaN. The base of an empty row is 0, so that -inf minus -inf is never computed.
template <int kDim>
FT_DEVICE void Weigh(float scale, Scores<kDim>& scores, RunningRows<kDim>& state) {
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float most = scores[i][0][2 * h];
#pragma unroll
      for (int j = 0; j < kKeyTiles<kDim>; ++j) {
        most = fmaxf(most, fmaxf(scores[i][j][2 * h], scores[i][j][2 * h + 1]));
      }
      most = JoinQuad(most, [](float a, float b) { return fmaxf(a, b); });
      most = fmaxf(state.most[i][h], most * scale);
      const float base = most == -INFINITY ? 0.0F : most;
      const float shrink = PowerOf2(state.most[i][h] - base);
      float sum = 0.0F;
#pragma unroll
      for (int j = 0; j < kKeyTiles<kDim>; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& score = scores[i][j][2 * h + e];
          score = PowerOf2(score * scale - base);
          sum += score;
        }
      }
      state.most[i][h] = most;
      state.sum[i][h] = state.sum[i][h] * shrink + sum;
      // True for most tiles after the first ones.
      if (__ballot_sync(kAllLanes, shrink != 1.0F) == 0) continue;
#pragma unroll
      for (int j = 0; j < kDim / kFragmentCols; ++j) {
        state.out[i][j][2 * h] *= shrink;
        state.out[i][j][2 * h + 1] *= shrink;
      }
    }
  }
}

// Divides by the sums and writes out and lse. own: the warp's rows in shared memory, reused for
// 16-byte stores.
template <class T, int kDim>
FT_DEVICE void End(const AttentionCall& g, const ForwardOutputs& o, const WarpRows& mine,
                   std::int64_t head, T* own, RunningRows<kDim>& state) {
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float sum = JoinQuad(state.sum[i][h], Sum{});
      const float inverse = sum > 0.0F || sum != sum ? 1.0F / sum : 0.0F;
#pragma unroll
      for (int j = 0; j < kDim / kFragmentCols; ++j) {
        state.out[i][j][2 * h] *= inverse;
        state.out[i][j][2 * h + 1] *= inverse;
      }
      const int r = FragmentRow(i, h);
      if (LaneOf() % 4 != 0 || r >= mine.rows) continue;
      o.lse[(mine.row + r) * g.heads + head] =
          sum == 0.0F ? -INFINITY : state.most[i][h] * kLogOf2 + logf(sum);
    }
  }
  const std::int64_t stride = std::int64_t{g.heads} * g.value_dim;
  StoreRows<T>(state.out, own, At<T>(o.out, mine.row, stride, head * g.value_dim), stride,
               mine.rows, g.value_dim);
}

// Two barriers per tile: after the first, keys are present and the old values free; after the
// second, values are present and the keys free. Each copy overlaps one product.
template <class T, int kDim>
__global__ void __launch_bounds__(kTensorThreads, 2)
    TensorForwardKernel(AttentionCall g, ForwardOutputs o) {
  FT_DYN_SHARED(T, shared);
  constexpr int kRow = PaddedRow<kDim>;
  T* const queries = shared;
  T* const keys = queries + kQueries * kRow;
  T* const values = keys + kKeys<kDim> * kRow;
  const int first =
      static_cast<int>(threadIdx.x) / kWarp * kWarpQueries;  // first query of the warp
  const std::int64_t head = blockIdx.y, shift = std::int64_t{blockIdx.z} * g.sample_rows;
  const std::int64_t kv_head = head / (g.heads / g.kv_heads);
  // The last queries see the most keys, so their blocks start first: this balances the end of the
  // launch.
  const RowTile tile = TileOf(g.queries, gridDim.x - 1 - blockIdx.x, kQueries);
  const WarpRows mine{tile.row + shift + first, tile.position + first, tile.rows - first};
  TileWalk walk;
  const auto next = [&] {
    return walk.Next(g.keys, KeysSeenBy(tile.position, tile.rows, g.window), kKeys<kDim>);
  };
  bool more = next();

  const auto copy_keys = [&] {
    const RowTile of_keys = walk.Tile(g.keys, kKeys<kDim>);
    CopyHead<kKeys<kDim>, kDim>(g.k, of_keys.row + shift, g.kv_stride, kv_head, g.head_dim,
                                of_keys.rows, keys);
  };
  CopyHead<kQueries, kDim>(g.q, tile.row + shift, g.q_stride, head, g.head_dim, tile.rows, queries);
  if (more) copy_keys();
  CommitCopies();
  RunningRows<kDim> state;
  Begin<T>(g, o, mine, head, state);
  const float scale = g.scale * kLog2E;
  while (more) {
    AwaitCopies<0>();  // keys
    __syncthreads();   // the previous tile's values have also been read
    const RowTile of_keys = walk.Tile(g.keys, kKeys<kDim>);
    CopyHead<kKeys<kDim>, kDim>(g.v, of_keys.row + shift, g.kv_stride, kv_head, g.value_dim,
                                of_keys.rows, values);
    CommitCopies();
    Scores<kDim> scores = {};
    MultiplyRows<kDim>(queries + first * kRow, keys, scores);
    if (of_keys.rows < kKeys<kDim> || !SeesAll(g, tile, of_keys)) {
      Hide(scores, -INFINITY, [&](int row) {
        return KeyColumns(mine.position + row, of_keys.position, of_keys.rows, g.window);
      });
    }
    AwaitCopies<0>();  // values
    __syncthreads();   // the keys have also been read
    more = next();
    if (more) copy_keys();
    CommitCopies();
    Weigh<kDim>(scale, scores, state);
    std::uint32_t weights[kRowTiles][kKeyTiles<kDim> / 2][4];
    PackRows<T>(scores, weights);
    MultiplyPacked(weights, values, state.out);
  }
  AwaitCopies<0>();
  __syncthreads();  // without a tile, queries have not been waited for
  End(g, o, mine, head, queries + first * kRow, state);
}

}  // namespace

FtStatus TensorAttentionForward(FtQueue* queue, CudaCheck& check, const char* name,
                                const AttentionCall& call, const ForwardOutputs& outputs,
                                std::int64_t batch) {
  FtStatus status = FT_OK;
  WithTensorHead(call, [&](auto type, auto dim) {
    using T = decltype(type);
    constexpr int kDim = decltype(dim)::value;
    constexpr std::int64_t kBytes =
        (kQueries + 2 * kKeys<kDim>)*std::int64_t{PaddedRow<kDim>} * std::int64_t{sizeof(T)};
    const auto kernel = &TensorForwardKernel<T, kDim>;
    status = AllowShared(queue, name, reinterpret_cast<const void*>(kernel), kBytes);
    if (status != FT_OK) return;
    FT_LAUNCH(kernel,
              dim3(Blocks(TilesOf(call.queries, kQueries), 1), static_cast<unsigned>(call.heads),
                   static_cast<unsigned>(batch)),
              dim3(kTensorThreads), kBytes, StreamOf(queue), call, outputs);
  });
  return status != FT_OK ? status : check.Launched();
}

}  // namespace foretrain
