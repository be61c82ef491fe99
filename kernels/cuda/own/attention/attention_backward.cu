// Flash attention backward (Dao et al. 2022) on CUDA cores, in two kernels without atomics. One
// owns queries and computes dq, the other owns keys and computes dk and dv. Both recompute the
// weights from the scores and lse.
#include "kernels/cuda/device/entries.h"
#include "kernels/cuda/library/library_attention.h"
#include "kernels/cuda/own/attention/attention.cuh"
#include "kernels/cuda/tensor/tensor_attention.cuh"

namespace foretrain {
namespace {

// The weight of a value, and the gradient of the score.
struct ScoreGradient {
  float weight, d_score;
};

// For one query and one key; all rows are in shared memory. With dropout the value's weight and dp
// use the same factor, but the softmax's gradient uses the undropped weight.
FT_DEVICE ScoreGradient GradientOf(const AttentionCall& g, const float* query_row,
                                   const float* key_row, const float* dout_row,
                                   const float* value_row, std::int64_t sample, std::int64_t head,
                                   std::int64_t query, std::int64_t key, float slope, float lse,
                                   float delta) {
  float share;
  const float score = Bent(g, DotRows(query_row, key_row, g.head_dim), slope, query - key, share);
  const float weight = expf(score - lse);
  const float factor = g.drops != 0 ? g.rule.Factor(sample, head, query, key) : 1.0F;
  const float d_weight = factor * DotRows(dout_row, value_row, g.value_dim);
  return {weight * factor, weight * (d_weight - delta) * share * g.scale};
}

// Shared memory of a block: rows of the queries' tile, of the keys' tile, and gradients of scores.
struct QueryTiles {
  FT_DEVICE QueryTiles(float* shared, const AttentionCall& g)
      : width(PaddedDim(g.head_dim)), value_width(PaddedDim(g.value_dim)), queries(shared) {}
  int width, value_width;
  float* const queries;
  float* const douts = queries + kRows * width;
  float* const keys = douts + kRows * value_width;
  float* const values = keys + kRows * width;
  float* const d_scores = values + kRows * value_width;
};

// One block per tile of 32 queries and head. It walks the tiles of keys, keeps dq in registers, and
// also writes delta = dout . out, which the key kernel reads later in the same stream.
template <int kDims>
__global__ void __launch_bounds__(kBlock)
    QueryGradientKernel(AttentionCall g, BackwardTensors b, std::int64_t key_tiles) {
  FT_DYN_SHARED(float, shared);
  const auto [width, value_width, queries, douts, keys, values, d_scores] = QueryTiles(shared, g);
  const int y = static_cast<int>(threadIdx.x) / kLanes,
            lane = static_cast<int>(threadIdx.x) % kLanes;
  const std::int64_t head = blockIdx.y, sample = blockIdx.z, shift = sample * g.sample_rows;
  const std::int64_t kv_head = head / (g.heads / g.kv_heads);
  const RowTile mine = TileOf(g.queries, blockIdx.x);
  const std::int64_t row = mine.row + shift + y, item = row * g.heads + head;
  const std::int64_t query = mine.position + y;
  const std::int64_t start = DocumentStart(g, mine, shift, y);
  const float slope = AlibiSlope(g, head);
  LoadRows(g.q, g.dtype, mine, shift, g.q_stride, head * g.head_dim, g.head_dim, queries);
  LoadRows(b.dout, g.dtype, mine, shift, std::int64_t{g.heads} * g.value_dim, head * g.value_dim,
           g.value_dim, douts);
  __syncthreads();
  float delta = 0.0F;
  for (int c = lane; c < g.value_dim && y < mine.rows; c += kLanes) {
    delta += LoadAny(b.out, g.dtype, item * g.value_dim + c) * douts[y * value_width + c];
  }
  delta = JoinRow(delta, Sum{});
  const float lse = y < mine.rows ? b.lse[item] : 0.0F;
  if (lane == 0 && y < mine.rows) b.delta[item] = delta;
  float sum[kDims] = {};
  for (std::int64_t t = 0; t < key_tiles; ++t) {
    const RowTile tile = TileOf(g.keys, t);
    if (!Meet(g, mine, tile, shift)) continue;
    __syncthreads();  // the previous tile has been read
    LoadRows(g.k, g.dtype, tile, shift, g.kv_stride, kv_head * g.head_dim, g.head_dim, keys);
    LoadRows(g.v, g.dtype, tile, shift, g.kv_stride, kv_head * g.value_dim, g.value_dim, values);
    __syncthreads();
    for (int j = lane; j < kRows; j += kLanes) {
      const std::int64_t key = tile.position + j;
      const bool seen = y < mine.rows && j < tile.rows && Sees(g, query, key, start);
      d_scores[y * (kRows + 1) + j] =
          seen ? GradientOf(g, queries + y * width, keys + j * width, douts + y * value_width,
                            values + j * value_width, sample, head, query, key, slope, lse, delta)
                     .d_score
               : 0.0F;
    }
    __syncwarp();  // the lanes of a row share a warp
    for (int j = 0; j < tile.rows; ++j) {
      const float d = d_scores[y * (kRows + 1) + j];
#pragma unroll
      for (int i = 0; i < kDims; ++i) {
        const int c = lane + i * kLanes;
        if (c < g.head_dim) sum[i] += d * keys[j * width + c];
      }
    }
  }
  if (y >= mine.rows) return;
#pragma unroll
  for (int i = 0; i < kDims; ++i) {
    const int c = lane + i * kLanes;
    if (c >= g.head_dim) continue;
    const std::int64_t at = row * b.dq_stride + head * g.head_dim + c;
    StoreAny(b.dq, g.dtype, at,
             b.accumulate_dq != 0 ? LoadAny(b.dq, g.dtype, at) + sum[i] : sum[i]);
  }
}

// Weights and score gradients of a tile of queries and a tile of keys, in shared memory as
// [queries][kRows + 1]. The odd width avoids bank conflicts between rows.
struct TilePair {
  const float* queries;
  const float* douts;
  const float* keys;
  const float* values;
  float* weights;
  float* d_scores;
};

// Each thread computes kScores entries of one query's row.
FT_DEVICE void FillPair(const AttentionCall& g, const BackwardTensors& b, const TilePair& pair,
                        const RowTile& queries, const RowTile& keys, std::int64_t sample,
                        std::int64_t head, float slope) {
  const int width = PaddedDim(g.head_dim), value_width = PaddedDim(g.value_dim);
  const int y = static_cast<int>(threadIdx.x) / kLanes,
            lane = static_cast<int>(threadIdx.x) % kLanes;
  const std::int64_t item = (queries.row + sample * g.sample_rows + y) * g.heads + head;
  const std::int64_t query = queries.position + y;
  const std::int64_t start = DocumentStart(g, queries, sample * g.sample_rows, y);
  const float lse = y < queries.rows ? b.lse[item] : 0.0F;
  const float delta = y < queries.rows ? b.delta[item] : 0.0F;
  for (int j = lane; j < kRows; j += kLanes) {
    const std::int64_t key = keys.position + j;
    ScoreGradient of{0.0F, 0.0F};
    if (y < queries.rows && j < keys.rows && Sees(g, query, key, start)) {
      of = GradientOf(g, pair.queries + y * width, pair.keys + j * width,
                      pair.douts + y * value_width, pair.values + j * value_width, sample, head,
                      query, key, slope, lse, delta);
    }
    pair.weights[y * (kRows + 1) + j] = of.weight;
    pair.d_scores[y * (kRows + 1) + j] = of.d_score;
  }
}

// Stores one row of dk or dv: lane l holds elements l, l + kLanes, ...
template <int kDims>
FT_DEVICE void StoreKeyRow(void* to, FtDtype dtype, std::int64_t at, int dim, int lane,
                           const float (&sum)[kDims]) {
#pragma unroll
  for (int i = 0; i < kDims; ++i) {
    const int c = lane + i * kLanes;
    if (c < dim) StoreAny(to, dtype, at + c, sum[i]);
  }
}

// One block per tile of keys of one key head. It walks all queries of its group's heads in order,
// so dk and dv are summed in registers without atomics.
template <int kDims>
__global__ void __launch_bounds__(kBlock)
    KeyGradientKernel(AttentionCall g, BackwardTensors b, std::int64_t query_tiles) {
  FT_DYN_SHARED(float, shared);
  const int width = PaddedDim(g.head_dim), value_width = PaddedDim(g.value_dim);
  float* const keys = shared;
  float* const values = keys + kRows * width;
  float* const queries = values + kRows * value_width;
  float* const douts = queries + kRows * width;
  float* const weights = douts + kRows * value_width;
  float* const d_scores = weights + kRows * (kRows + 1);
  const TilePair pair{queries, douts, keys, values, weights, d_scores};
  const int y = static_cast<int>(threadIdx.x) / kLanes,
            lane = static_cast<int>(threadIdx.x) % kLanes;
  const std::int64_t kv_head = blockIdx.y, sample = blockIdx.z, shift = sample * g.sample_rows;
  const std::int64_t group = g.heads / g.kv_heads;
  const RowTile mine = TileOf(g.keys, blockIdx.x);
  LoadRows(g.k, g.dtype, mine, shift, g.kv_stride, kv_head * g.head_dim, g.head_dim, keys);
  LoadRows(g.v, g.dtype, mine, shift, g.kv_stride, kv_head * g.value_dim, g.value_dim, values);
  float dk[kDims] = {}, dv[kDims] = {};
  for (std::int64_t n = 0; n < group * query_tiles; ++n) {
    const std::int64_t head = kv_head * group + n / query_tiles;
    const RowTile tile = TileOf(g.queries, n % query_tiles);
    if (!Meet(g, tile, mine, shift)) continue;
    __syncthreads();  // the previous tile has been read
    LoadRows(g.q, g.dtype, tile, shift, g.q_stride, head * g.head_dim, g.head_dim, queries);
    LoadRows(b.dout, g.dtype, tile, shift, std::int64_t{g.heads} * g.value_dim, head * g.value_dim,
             g.value_dim, douts);
    __syncthreads();
    FillPair(g, b, pair, tile, mine, sample, head, AlibiSlope(g, head));
    __syncthreads();
    for (int i = 0; i < tile.rows; ++i) {
      const float weight = weights[i * (kRows + 1) + y], d = d_scores[i * (kRows + 1) + y];
#pragma unroll
      for (int j = 0; j < kDims; ++j) {
        const int c = lane + j * kLanes;
        if (c < g.head_dim) dk[j] += d * queries[i * width + c];
        if (c < g.value_dim) dv[j] += weight * douts[i * value_width + c];
      }
    }
  }
  if (y >= mine.rows) return;
  const std::int64_t at = (mine.row + shift + y) * b.dkv_stride;
  StoreKeyRow(b.dk, g.dtype, at + kv_head * g.head_dim, g.head_dim, lane, dk);
  StoreKeyRow(b.dv, g.dtype, at + kv_head * g.value_dim, g.value_dim, lane, dv);
}

// Takes tensor cores if the call meets their needs. Otherwise launches the query kernel first,
// because the key kernel reads its delta.
FtStatus Backward(FtQueue* queue, CudaCheck& check, const char* name, const AttentionCall& call,
                  BackwardTensors tensors, std::int64_t batch) {
  if (!check.ok() || batch == 0) return check.status();
  const std::int64_t rows = RowsOf(call.queries, batch, call.sample_rows);
  tensors.delta =
      reinterpret_cast<float*>(check.Workspace(rows * call.heads * std::int64_t{sizeof(float)}));
  if (!check.ok()) return check.status();
  if (PathOf(NeedsOf(queue, call, {tensors.out, tensors.dout, tensors.dq, tensors.dk, tensors.dv},
                     tensors.dkv_stride)) == AttentionPath::kTensorCores) {
    return TensorAttentionBackward(queue, check, name, call, tensors, batch);
  }
  const std::int64_t tiles = kRows * (2 * PaddedDim(call.head_dim) + 2 * PaddedDim(call.value_dim));
  const std::int64_t scores = kRows * (kRows + 1);
  const std::int64_t of_query = (tiles + scores) * std::int64_t{sizeof(float)};
  const std::int64_t of_key = (tiles + 2 * scores) * std::int64_t{sizeof(float)};
  const std::int64_t query_tiles = TilesOf(call.queries), key_tiles = TilesOf(call.keys);
  const auto samples = static_cast<unsigned>(batch);
  FtStatus status = FT_OK;
  WithLaneDims(call.head_dim > call.value_dim ? call.head_dim : call.value_dim, [&](auto dims) {
    constexpr int kDims = decltype(dims)::value;
    const auto of_queries = &QueryGradientKernel<kDims>;
    const auto of_keys = &KeyGradientKernel<kDims>;
    status = AllowShared(queue, name, reinterpret_cast<const void*>(of_queries), of_query);
    if (status == FT_OK) {
      status = AllowShared(queue, name, reinterpret_cast<const void*>(of_keys), of_key);
    }
    if (status != FT_OK) return;
    if (query_tiles > 0) {
      FT_LAUNCH(of_queries,
                dim3(Blocks(query_tiles, 1), static_cast<unsigned>(call.heads), samples),
                dim3(kBlock), static_cast<std::size_t>(of_query), StreamOf(queue), call, tensors,
                key_tiles);
    }
    if (key_tiles > 0) {
      FT_LAUNCH(of_keys, dim3(Blocks(key_tiles, 1), static_cast<unsigned>(call.kv_heads), samples),
                dim3(kBlock), static_cast<std::size_t>(of_key), StreamOf(queue), call, tensors,
                query_tiles);
    }
  });
  return status != FT_OK ? status : check.Launched();
}

// Own kernels run only if the library has no plan for the call.
FtStatus AttentionBackward(FtQueue* queue, const FtAttentionBackward* g) {
  CudaCheck check(queue, FT_KERNEL_ATTENTION_BACKWARD);
  const AttentionCall call = WholeCall(check, *g);
  FtStatus status = FT_OK;
  if (check.ok() && LibraryAttentionBackward(queue, *g, &status)) return status;
  const BackwardTensors tensors{g->out, g->lse,        g->dout,       g->dq, g->dk,
                                g->dv,  g->row_stride, g->row_stride, 0,     nullptr};
  return Backward(queue, check, "attention_backward", call, tensors, g->batch);
}

FtStatus AttentionPartBackward(FtQueue* queue, const FtAttentionPartBackward* g) {
  CudaCheck check(queue, FT_KERNEL_ATTENTION_PART_BACKWARD);
  const AttentionCall call = PartCall(check, *g);
  const BackwardTensors tensors{g->out,      g->lse,        g->dout,          g->dq,  g->dk, g->dv,
                                g->q_stride, g->dkv_stride, g->accumulate_dq, nullptr};
  return Backward(queue, check, "attention_part_backward", call, tensors, g->batch);
}

}  // namespace

void SetCudaAttentionBackwardEntries(FtDeviceApi& api) {
  api.attention_backward = &AttentionBackward;
  api.attention_part_backward = &AttentionPartBackward;
}

}  // namespace foretrain
