// Shared parts of forward and backward attention: the call in terms of parts (queries and keys as
// runs of rows), and for CUDA cores tiles of rows in shared memory and scores.
//
// Sums on CUDA cores are in fp32: correct on every GPU, but far slower than tensor cores
// (tensor_attention.cuh). A block of 256 threads works on 32 queries and 32 keys; 8 neighbouring
// lanes share a row.
#pragma once

#include <type_traits>

#include "kernels/cuda/library/attention_path.h"
#include "kernels/cuda/own/positions.cuh"
#include "kernels/cuda/own/random.cuh"

namespace foretrain {

constexpr int kRows = 32;                // queries and keys per tile
constexpr int kLanes = kBlock / kRows;   // threads per row
constexpr int kScores = kRows / kLanes;  // scores per thread
constexpr std::int64_t kMaxAttentionDim = 256;

struct AttentionCall {
  const void* q;
  const void* k;
  const void* v;
  Runs queries, keys;
  std::int64_t sample_rows, q_stride, kv_stride, window;
  std::int32_t heads, kv_heads, head_dim, value_dim, alibi_heads, first_head;
  FtDtype dtype;
  float scale, softcap;
  KeepRule rule;
  std::int32_t drops;
  const std::int32_t* document_starts;  // by query row; NULL: a sample is one document
};

// Outputs of the forward pass. merge != 0: combined with the values already there.
struct ForwardOutputs {
  void* out;
  float* lse;
  std::int32_t merge;
};

// Further inputs of the backward pass, and its outputs.
struct BackwardTensors {
  const void* out;
  const float* lse;
  const void* dout;
  void* dq;
  void* dk;
  void* dv;
  std::int64_t dq_stride, dkv_stride;
  std::int32_t accumulate_dq;
  float* delta;  // [rows, heads]: dout . out, computed by the dq kernel
};

// A tile of rows of one run, in the first sample.
struct RowTile {
  std::int64_t row, position;
  int rows;
};

FT_DEVICE RowTile TileOfRun(const FtRun& run, std::int64_t tile, int tile_rows) {
  const std::int64_t first = tile * tile_rows, left = run.rows - first;
  return {run.row + first, run.position + first,
          static_cast<int>(left < tile_rows ? left : tile_rows)};
}

// Tile number `tile` of all runs; each run starts a new tile. rows == 0 past the last.
FT_DEVICE RowTile TileOf(const Runs& runs, std::int64_t tile, int tile_rows = kRows) {
  for (std::int32_t r = 0; r < runs.count; ++r) {
    const std::int64_t tiles = (runs.at[r].rows + tile_rows - 1) / tile_rows;
    if (tile < tiles) return TileOfRun(runs.at[r], tile, tile_rows);
    tile -= tiles;
  }
  return {0, 0, 0};
}

inline std::int64_t TilesOf(const Runs& runs, int tile_rows = kRows) {
  std::int64_t tiles = 0;
  for (std::int32_t r = 0; r < runs.count; ++r) {
    tiles += (runs.at[r].rows + tile_rows - 1) / tile_rows;
  }
  return tiles;
}

// Position at which the document of query `y` of a tile begins; `shift`: the sample's first row. 0
// past the rows.
FT_DEVICE std::int64_t DocumentStart(const AttentionCall& g, const RowTile& queries,
                                     std::int64_t shift, int y) {
  if (g.document_starts == nullptr || y >= queries.rows) return 0;
  return g.document_starts[queries.row + shift + y];
}

// True if some query of one tile sees some key of the other. The first query's document begins
// first.
FT_DEVICE bool Meet(const AttentionCall& g, const RowTile& queries, const RowTile& keys,
                    std::int64_t shift) {
  if (queries.rows == 0 || keys.rows == 0) return false;
  if (keys.position > queries.position + queries.rows - 1) return false;
  const std::int64_t last = keys.position + keys.rows - 1;
  if (last < DocumentStart(g, queries, shift, 0)) return false;
  return g.window == 0 || last > queries.position - g.window;
}

// Causal: a key at the query's position or before it, inside the window if there is one, and in the
// query's document, which begins at `start`.
FT_DEVICE bool Sees(const AttentionCall& g, std::int64_t query, std::int64_t key,
                    std::int64_t start) {
  return key <= query && key >= start && (g.window == 0 || key > query - g.window);
}

// Floats per row in shared memory: odd, so that the rows of a column fall on different banks.
__host__ FT_DEVICE int PaddedDim(int dim) { return dim | 1; }

// Loads rows [tile.row + shift, ...) of a tensor, dim columns from `col` on, as fp32; 0 past the
// tile.
FT_DEVICE void LoadRows(const void* from, FtDtype dtype, const RowTile& tile, std::int64_t shift,
                        std::int64_t stride, std::int64_t col, int dim, float* to) {
  const int octets = (dim + kOctet - 1) / kOctet, width = PaddedDim(dim);
  for (int i = static_cast<int>(threadIdx.x); i < kRows * octets; i += kBlock) {
    const int r = i / octets, c = i % octets * kOctet;
    float x[kOctet] = {};
    if (r < tile.rows) {
      LoadAnyOctet(from, dtype, (tile.row + shift + r) * stride + col + c, dim - c, x);
    }
#pragma unroll
    for (int j = 0; j < kOctet; ++j) {
      if (c + j < dim) to[r * width + c + j] = x[j];
    }
  }
}

FT_DEVICE float DotRows(const float* a, const float* b, int dim) {
  float sum = 0.0F;
  for (int c = 0; c < dim; ++c) sum += a[c] * b[c];
  return sum;
}

// ALiBi slope of `head`, with i its number from 1: 2^(-8 i / n) if n heads are a power of 2.
// Otherwise, with p the largest power of 2 below n, it takes p's slopes, then every second slope of
// 2 p (Press et al. 2022, s. 3).
FT_DEVICE float AlibiSlope(const AttentionCall& g, std::int64_t head) {
  if (g.alibi_heads <= 0) return 0.0F;
  const std::int64_t number = g.first_head + head;
  std::int64_t power = 1;
  while (power * 2 <= g.alibi_heads) power *= 2;
  const double step = number < power ? static_cast<double>(number + 1) / static_cast<double>(power)
                                     : static_cast<double>(2 * (number - power) + 1) /
                                           static_cast<double>(2 * power);
  return static_cast<float>(exp2(-8.0 * step));
}

// Scaled score after soft cap and ALiBi bias. `share` is the derivative of the cap.
FT_DEVICE float Bent(const AttentionCall& g, float dot, float slope, std::int64_t distance,
                     float& share) {
  float score = dot * g.scale;
  share = 1.0F;
  if (g.softcap > 0.0F) {
    const float tanh = tanhf(score / g.softcap);
    share = 1.0F - tanh * tanh;
    score = tanh * g.softcap;
  }
  return score - slope * static_cast<float>(distance);
}

// Reduction over the lanes of a row.
template <class Join>
FT_DEVICE float JoinRow(float x, Join join) {
#pragma unroll
  for (int bits = kLanes / 2; bits > 0; bits /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, x, bits);
    x = join(x, other);
  }
  return x;
}

// ---- the table's calls as AttentionCall

template <class Arguments>
AttentionCall CallOf(const Arguments& g) {
  AttentionCall call{};
  call.q = g.q;
  call.k = g.k;
  call.v = g.v;
  call.window = g.window;
  call.heads = g.heads;
  call.kv_heads = g.kv_heads;
  call.head_dim = g.head_dim;
  call.value_dim = g.value_dim > 0 ? g.value_dim : g.head_dim;
  call.alibi_heads = g.alibi_heads;
  call.first_head = g.first_head;
  call.dtype = g.dtype;
  call.scale = g.scale > 0.0F ? g.scale : 1.0F / sqrtf(static_cast<float>(g.head_dim));
  call.softcap = g.softcap;
  call.document_starts = g.document_starts;
  call.rule = KeepRuleOf(g.random);
  call.drops = g.random.probability > 0.0F ? 1 : 0;
  return call;
}

// Limits of the own kernels, then the checks of every device.
template <class Arguments>
void CheckAttention(CudaCheck& check, const Arguments& g) {
  check.AtMost("batch", g.batch, 65535).AtMost("heads", g.heads, 65535);
  check.AtMost("head_dim", g.head_dim, kMaxAttentionDim);
  check.AtMost("value_dim", g.value_dim, kMaxAttentionDim);
  check.Read(g);
}

template <class Arguments>
AttentionCall WholeCall(CudaCheck& check, const Arguments& g) {
  CheckAttention(check, g);
  AttentionCall call = CallOf(g);
  call.queries.at[0] = call.keys.at[0] = {0, 0, g.sequence};
  call.queries.count = call.keys.count = 1;
  call.sample_rows = g.sequence;
  call.q_stride = call.kv_stride = g.row_stride;
  return call;
}

// Rows that a tensor needs to hold the runs of all samples.
inline std::int64_t RowsOf(const Runs& runs, std::int64_t batch, std::int64_t sample_rows) {
  std::int64_t end = 0;
  for (std::int32_t r = 0; r < runs.count; ++r) {
    const std::int64_t of_run = runs.at[r].rows > 0 ? runs.at[r].row + runs.at[r].rows : 0;
    end = of_run > end ? of_run : end;
  }
  return batch > 0 && end > 0 ? (batch - 1) * sample_rows + end : 0;
}

template <class Arguments>
AttentionCall PartCall(CudaCheck& check, const Arguments& g) {
  CheckAttention(check, g);
  const bool apart = g.key_sample_rows != 0 && g.key_sample_rows != g.sample_rows;
  if (apart || g.bias != nullptr) {
    check.Refuse(FT_UNSUPPORTED, "no kernel for keys of another length or a bias by distance");
  }
  AttentionCall call = CallOf(g);
  call.queries = RunsOf(check, g.query_runs, g.query_run_count);
  call.keys = RunsOf(check, g.key_runs, g.key_run_count);
  call.sample_rows = g.sample_rows;
  call.q_stride = g.q_stride;
  call.kv_stride = g.kv_stride;
  return call;
}

// Calls use(n) with the smallest n of 8, 16 and 32 elements per lane that holds `dim`. The lane's
// elements are then an array in registers.
template <class Use>
void WithLaneDims(std::int64_t dim, const Use& use) {
  if (dim <= 8 * kLanes) {
    use(std::integral_constant<int, 8>{});
  } else if (dim <= 16 * kLanes) {
    use(std::integral_constant<int, 16>{});
  } else {
    use(std::integral_constant<int, 32>{});
  }
}

}  // namespace foretrain
