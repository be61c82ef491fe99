// Flash attention forward (Dao et al. 2022) on CUDA cores. Tiles of keys are processed one after
// the other with a running maximum and sum, so no matrix of scores is stored.
#include "kernels/cuda/device/entries.h"
#include "kernels/cuda/library/library_attention.h"
#include "kernels/cuda/own/attention/attention.cuh"
#include "kernels/cuda/tensor/tensor_attention.cuh"

namespace foretrain {
namespace {

// Maximum of no scores; its exponential is 0.
constexpr float kNone = -INFINITY;

// Running softmax of a query. `most`, the maximum, is equal in all lanes of the row. `sum` is the
// lane's share. Lane l holds elements l, l + kLanes, ... of the output.
template <int kDims>
struct RunningRow {
  float most, sum;
  float out[kDims];
};

// Starts empty, or from an earlier part's result: with log-sum lse it counts as one key with score
// lse and sum 1.
template <int kDims>
FT_DEVICE RunningRow<kDims> BeginRow(const AttentionCall& g, const ForwardOutputs& o,
                                     std::int64_t item, int lane, bool is_there) {
  RunningRow<kDims> row{kNone, 0.0F, {}};
  if (o.merge == 0 || !is_there || o.lse[item] == kNone) return row;
  row.most = o.lse[item];
  row.sum = lane == 0 ? 1.0F : 0.0F;
#pragma unroll
  for (int i = 0; i < kDims; ++i) {
    const int c = lane + i * kLanes;
    row.out[i] = c < g.value_dim ? LoadAny(o.out, g.dtype, item * g.value_dim + c) : 0.0F;
  }
  return row;
}

// Adds the scores of one tile of keys. weights is [kRows][kRows + 1] in shared memory; the lanes of
// a row use only their row.
template <int kDims>
FT_DEVICE void AddScores(const float (&scores)[kScores], const float (&factors)[kScores],
                         float* weights, int y, int lane, RunningRow<kDims>& row) {
  float most = row.most;
#pragma unroll
  for (int i = 0; i < kScores; ++i) most = Most{}(most, scores[i]);
  most = JoinRow(most, Most{});
  if (most == kNone) return;  // the same for all lanes of the row; no barrier follows
  const float shrink = expf(row.most - most);
  float sum = 0.0F;
#pragma unroll
  for (int i = 0; i < kScores; ++i) {
    const float weight = expf(scores[i] - most);
    sum += weight;
    weights[y * (kRows + 1) + lane + i * kLanes] = weight * factors[i];
  }
  row.sum = row.sum * shrink + sum;
  row.most = most;
#pragma unroll
  for (int i = 0; i < kDims; ++i) row.out[i] *= shrink;
}

// One block per tile of 32 queries and head. Threads load each tile of keys and values once, and 8
// lanes share a query.
template <int kDims>
__global__ void __launch_bounds__(kBlock, 2)
    AttentionForwardKernel(AttentionCall g, ForwardOutputs o, std::int64_t key_tiles) {
  FT_DYN_SHARED(float, shared);
  const int width = PaddedDim(g.head_dim), value_width = PaddedDim(g.value_dim);
  float* const queries = shared;
  float* const keys = queries + kRows * width;
  float* const values = keys + kRows * width;
  float* const weights = values + kRows * value_width;
  const int y = static_cast<int>(threadIdx.x) / kLanes,
            lane = static_cast<int>(threadIdx.x) % kLanes;
  const std::int64_t head = blockIdx.y, sample = blockIdx.z, shift = sample * g.sample_rows;
  const std::int64_t kv_head = head / (g.heads / g.kv_heads);
  const RowTile mine = TileOf(g.queries, blockIdx.x);
  const std::int64_t item = (mine.row + shift + y) * g.heads + head, query = mine.position + y;
  const std::int64_t start = DocumentStart(g, mine, shift, y);
  const float slope = AlibiSlope(g, head);
  LoadRows(g.q, g.dtype, mine, shift, g.q_stride, head * g.head_dim, g.head_dim, queries);
  RunningRow<kDims> row = BeginRow<kDims>(g, o, item, lane, y < mine.rows);
  for (std::int64_t t = 0; t < key_tiles; ++t) {
    const RowTile tile = TileOf(g.keys, t);
    if (!Meet(g, mine, tile, shift)) continue;
    __syncthreads();  // the previous tile has been read
    LoadRows(g.k, g.dtype, tile, shift, g.kv_stride, kv_head * g.head_dim, g.head_dim, keys);
    LoadRows(g.v, g.dtype, tile, shift, g.kv_stride, kv_head * g.value_dim, g.value_dim, values);
    __syncthreads();
    float scores[kScores], factors[kScores];
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      const int j = lane + i * kLanes;
      const std::int64_t key = tile.position + j;
      const bool seen = y < mine.rows && j < tile.rows && Sees(g, query, key, start);
      float share;
      scores[i] = seen ? Bent(g, DotRows(queries + y * width, keys + j * width, g.head_dim), slope,
                              query - key, share)
                       : kNone;
      factors[i] = g.drops != 0 && seen ? g.rule.Factor(sample, head, query, key) : 1.0F;
      weights[y * (kRows + 1) + j] = 0.0F;
    }
    AddScores(scores, factors, weights, y, lane, row);
    __syncwarp();
    for (int j = 0; j < tile.rows; ++j) {
      const float weight = weights[y * (kRows + 1) + j];
#pragma unroll
      for (int i = 0; i < kDims; ++i) {
        const int c = lane + i * kLanes;
        if (c < g.value_dim) row.out[i] += weight * values[j * value_width + c];
      }
    }
  }
  const float sum = JoinRow(row.sum, Sum{});
  if (y >= mine.rows) return;
  const float inverse = sum > 0.0F || sum != sum ? 1.0F / sum : 0.0F;
#pragma unroll
  for (int i = 0; i < kDims; ++i) {
    const int c = lane + i * kLanes;
    if (c < g.value_dim) StoreAny(o.out, g.dtype, item * g.value_dim + c, row.out[i] * inverse);
  }
  if (lane == 0) o.lse[item] = sum == 0.0F ? kNone : row.most + logf(sum);
}

// Sums and maxima are in fp32 whatever the tensors' format.
FtStatus Forward(FtQueue* queue, CudaCheck& check, const char* name, const AttentionCall& call,
                 const ForwardOutputs& outputs, std::int64_t batch) {
  const std::int64_t query_tiles = TilesOf(call.queries);
  if (!check.ok() || batch == 0 || query_tiles == 0) return check.status();
  if (PathOf(NeedsOf(queue, call, {outputs.out})) == AttentionPath::kTensorCores) {
    return TensorAttentionForward(queue, check, name, call, outputs, batch);
  }
  const std::int64_t floats = 2 * kRows * PaddedDim(call.head_dim) +
                              kRows * PaddedDim(call.value_dim) + kRows * (kRows + 1);
  const std::int64_t bytes = floats * std::int64_t{sizeof(float)};
  FtStatus status = FT_OK;
  WithLaneDims(call.value_dim, [&](auto dims) {
    constexpr int kDims = decltype(dims)::value;
    const auto kernel = &AttentionForwardKernel<kDims>;
    status = AllowShared(queue, name, reinterpret_cast<const void*>(kernel), bytes);
    if (status != FT_OK) return;
    FT_LAUNCH(kernel,
              dim3(Blocks(query_tiles, 1), static_cast<unsigned>(call.heads),
                   static_cast<unsigned>(batch)),
              dim3(kBlock), static_cast<std::size_t>(bytes), StreamOf(queue), call, outputs,
              TilesOf(call.keys));
  });
  return status != FT_OK ? status : check.Launched();
}

// Own kernels run only if the library has no plan for the call.
FtStatus AttentionForward(FtQueue* queue, const FtAttentionForward* g) {
  CudaCheck check(queue, FT_KERNEL_ATTENTION_FORWARD);
  const AttentionCall call = WholeCall(check, *g);
  FtStatus status = FT_OK;
  if (check.ok() && LibraryAttentionForward(queue, *g, &status)) return status;
  return Forward(queue, check, "attention_forward", call, {g->out, g->lse, 0}, g->batch);
}

FtStatus AttentionPartForward(FtQueue* queue, const FtAttentionPartForward* g) {
  CudaCheck check(queue, FT_KERNEL_ATTENTION_PART_FORWARD);
  const AttentionCall call = PartCall(check, *g);
  return Forward(queue, check, "attention_part_forward", call, {g->out, g->lse, g->merge},
                 g->batch);
}

}  // namespace

void SetCudaAttentionForwardEntries(FtDeviceApi& api) {
  api.attention_forward = &AttentionForward;
  api.attention_part_forward = &AttentionPartForward;
}

}  // namespace foretrain
