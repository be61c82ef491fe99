// Operations on heads around attention: rotary embedding, head norms, latent attention's heads,
// attention sinks. Kernels test dtypes at run time, because these tensors are small.
#include "kernels/cuda/device/entries.h"
#include "kernels/cuda/own/columns.cuh"
#include "kernels/cuda/own/positions.cuh"

namespace foretrain {
namespace {

// ---- rotary embedding

constexpr double kPi = 3.14159265358979323846;
constexpr std::int64_t kMaxSamples = 65535;  // limit of the grid's y dimension

// Frequency of pair i, rescaled as in FtRopeStretch.
FT_DEVICE double FrequencyOf(const FtRope& g, std::int64_t i) {
  const double frequency =
      pow(static_cast<double>(g.theta), -2.0 * static_cast<double>(i) / g.head_dim);
  const double low = static_cast<double>(g.low), high = static_cast<double>(g.high);
  const double factor = g.stretch == FT_ROPE_PLAIN ? 1.0 : static_cast<double>(g.factor);
  double kept = 0.0;  // share of the frequency that is not divided by factor
  if (g.stretch == FT_ROPE_YARN) {
    kept = 1.0 - (static_cast<double>(i) - low) / (high - low);
  } else if (g.stretch == FT_ROPE_LLAMA3) {
    kept = (static_cast<double>(g.original) * frequency / (2.0 * kPi) - low) / (high - low);
  }
  kept = kept < 0.0 ? 0.0 : kept > 1.0 ? 1.0 : kept;
  return frequency / factor * (1.0 - kept) + frequency * kept;
}

// Positions whose sines and cosines a block keeps.
constexpr std::int64_t kPlaces = 16;

// Rows that no run contains stay unchanged.
FT_DEVICE bool IsInRuns(const Runs& runs, std::int64_t place) {
  for (std::int32_t r = 0; r < runs.count; ++r) {
    if (place >= runs.at[r].row && place < runs.at[r].row + runs.at[r].rows) return true;
  }
  return false;
}

// Fills turns [places, 2, pairs] with cosines and sines. The angle, in half turns, is reduced in
// fp64: in fp32 it has no fractional digits left at position 2^20. Between -1 and 1 fp32 suffices.
// starts: of the places' documents, of which the first `rows` exist; NULL: none.
FT_DEVICE void FillTurns(const FtRope& g, const Runs& runs, std::int64_t first, std::int64_t places,
                         const std::int32_t* starts, std::int64_t rows, float* turns) {
  const std::int64_t pairs = g.head_dim / 2;
  const float magnitude = g.magnitude > 0.0F ? g.magnitude : 1.0F;
  for (std::int64_t i = threadIdx.x; i < pairs; i += blockDim.x) {
    const double frequency = FrequencyOf(g, i) / kPi;
    for (std::int64_t p = 0; p < places; ++p) {
      const std::int64_t start = starts != nullptr && p < rows ? starts[p] : 0;
      float* const at = turns + p * g.head_dim + i;
      if (g.stretch == FT_ROPE_QUERY_GROWTH) {
        const auto position = static_cast<double>(runs.PositionOf(first + p) - start);
        const double periods = floor((position + 1.0) / static_cast<double>(g.original));
        at[0] = static_cast<float>(1.0 + static_cast<double>(g.factor) * log1p(periods));
        at[pairs] = 0.0F;
        continue;
      }
      const double angle = static_cast<double>(runs.PositionOf(first + p) - start) * frequency;
      const auto reduced = static_cast<float>(angle - 2.0 * rint(angle / 2.0));
      at[0] = cospif(reduced) * magnitude;
      at[pairs] = sinpif(g.inverse != 0 ? -reduced : reduced) * magnitude;
    }
  }
}

// A block rotates all heads of up to kPlaces rows of a sample, an octet of pairs per thread.
__global__ void RopeKernel(FtRope g, Runs runs, int has_runs) {
  FT_DYN_SHARED(float, turns);
  const std::int64_t all = g.sequence < g.rows ? g.sequence : g.rows;
  const std::int64_t first = std::int64_t{blockIdx.x} * kPlaces, pairs = g.head_dim / 2;
  const std::int64_t places = all - first < kPlaces ? all - first : kPlaces;
  const std::int64_t sample = std::int64_t{blockIdx.y} * g.sequence + first;
  const std::int32_t* const starts = g.document_starts;
  FillTurns(g, runs, first, places, starts != nullptr ? starts + sample : nullptr, g.rows - sample,
            turns);
  __syncthreads();
  const std::int64_t head_stride = g.head_stride > 0 ? g.head_stride : g.head_dim;
  const int octets = static_cast<int>((pairs + kOctet - 1) / kOctet);
  const int each = g.heads * octets;  // octets of a row
  for (int n = static_cast<int>(threadIdx.x); n < static_cast<int>(places) * each;
       n += static_cast<int>(blockDim.x)) {
    const int p = n / each, head = n % each / octets, i = n % octets * kOctet;
    if (sample + p >= g.rows || (has_runs != 0 && !IsInRuns(runs, first + p))) continue;
    const std::int64_t at = (sample + p) * g.row_stride + head * head_stride + i, left = pairs - i;
    float x[kOctet], y[kOctet], c[kOctet], s[kOctet];
    LoadAnyOctet(g.data, g.dtype, at, left, x);
    LoadAnyOctet(g.data, g.dtype, at + pairs, left, y);
    LoadOctet(turns + p * g.head_dim + i, left, c);
    LoadOctet(turns + p * g.head_dim + pairs + i, left, s);
#pragma unroll
    for (int k = 0; k < kOctet; ++k) {
      const float turned = x[k] * c[k] - y[k] * s[k];
      y[k] = y[k] * c[k] + x[k] * s[k];
      x[k] = turned;
    }
    StoreAnyOctet(g.data, g.dtype, at, left, x);
    StoreAnyOctet(g.data, g.dtype, at + pairs, left, y);
  }
}

void Rope(CudaCheck& check, const FtRope& g) {
  const Runs runs = RunsOf(check, g.runs, g.run_count);
  check.AtMost("rows", g.rows, kMaxSamples * g.sequence);
  if (!check.ok() || g.rows == 0 || g.heads == 0) return;
  const std::int64_t places = g.sequence < g.rows ? g.sequence : g.rows;
  FT_LAUNCH(RopeKernel, dim3(Blocks(places, kPlaces), Blocks(g.rows, g.sequence)), dim3(kBlock),
            static_cast<std::size_t>(kPlaces * g.head_dim) * sizeof(float), check.stream(), g, runs,
            g.runs != nullptr ? 1 : 0);
}

// ---- RMSNorm of each head, or of all heads of a kind: one warp per norm

// The norms of a row: those of queries, then those of keys.
struct HeadNorms {
  std::int64_t queries, keys;           // norms in a row
  std::int64_t query_width, key_width;  // numbers of one

  template <class Arguments>
  __host__ FT_DEVICE explicit HeadNorms(const Arguments& g)
      : queries(g.whole != 0 ? 1 : g.heads),
        keys(g.whole != 0 ? 1 : g.kv_heads),
        query_width(g.whole != 0 ? std::int64_t{g.heads} * g.head_dim : g.head_dim),
        key_width(g.whole != 0 ? std::int64_t{g.kv_heads} * g.head_dim : g.head_dim) {}

  __host__ FT_DEVICE std::int64_t InRow() const { return queries + keys; }
  __host__ FT_DEVICE std::int64_t RowWidth() const {
    return queries * query_width + keys * key_width;
  }
  __host__ FT_DEVICE std::int64_t Width(std::int64_t norm) const {
    return norm < queries ? query_width : key_width;
  }
  // Offset in the row.
  __host__ FT_DEVICE std::int64_t First(std::int64_t norm) const {
    return norm < queries ? norm * query_width
                          : queries * query_width + (norm - queries) * key_width;
  }
};

// Number of the norm that this warp works on, over all rows.
FT_DEVICE std::int64_t ItemOfWarp() {
  return (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) / kWarp;
}
FT_DEVICE std::int64_t LaneOfWarp() { return threadIdx.x % kWarp; }

// Weight of element `c`; 1 without weights.
FT_DEVICE float WeightAt(const void* weight, FtDtype dtype, std::int64_t c) {
  return weight != nullptr ? LoadAny(weight, dtype, c) : 1.0F;
}

// The sum of squares is a warp reduction in a fixed order; the input is kept for the backward.
__global__ void HeadNormForwardKernel(FtHeadNormForward g) {
  const HeadNorms norms(g);
  const std::int64_t item = ItemOfWarp();
  if (item >= g.rows * norms.InRow()) return;
  const std::int64_t row = item / norms.InRow(), norm = item % norms.InRow();
  const std::int64_t width = norms.Width(norm), first = norms.First(norm);
  const std::int64_t at = row * g.row_stride + first, dense = row * norms.RowWidth() + first;
  const void* const weight = norm < norms.queries ? g.q_weight : g.k_weight;
  float square = 0.0F;
  for (std::int64_t c = LaneOfWarp(); c < width; c += kWarp) {
    const float x = LoadAny(g.qkv, g.dtype, at + c);
    StoreAny(g.kept, g.dtype, dense + c, x);
    square += x * x;
  }
  square = JoinWarp(square, Sum{});
  const float rstd = 1.0F / sqrtf(square / static_cast<float>(width) + g.epsilon);
  if (LaneOfWarp() == 0) g.rstd[item] = rstd;
  for (std::int64_t c = LaneOfWarp(); c < width; c += kWarp) {
    const float x = LoadAny(g.qkv, g.dtype, at + c);
    StoreAny(g.qkv, g.dtype, at + c, x * rstd * WeightAt(weight, g.dtype, c));
  }
}

// dx = rstd (a - xhat mean(a xhat)) with a = dy * weight and xhat = x rstd.
__global__ void HeadNormBackwardInputKernel(FtHeadNormBackwardInput g) {
  const HeadNorms norms(g);
  const std::int64_t item = ItemOfWarp();
  if (item >= g.rows * norms.InRow()) return;
  const std::int64_t row = item / norms.InRow(), norm = item % norms.InRow();
  const std::int64_t width = norms.Width(norm), first = norms.First(norm);
  const std::int64_t at = row * g.row_stride + first, dense = row * norms.RowWidth() + first;
  const void* const weight = norm < norms.queries ? g.q_weight : g.k_weight;
  float sum = 0.0F;
  for (std::int64_t c = LaneOfWarp(); c < width; c += kWarp) {
    const float d = LoadAny(g.dqkv, g.dtype, at + c);
    if (g.kept_grad != nullptr) StoreAny(g.kept_grad, g.dtype, dense + c, d);
    sum += d * WeightAt(weight, g.dtype, c) * LoadAny(g.kept, g.dtype, dense + c);
  }
  const float rstd = g.rstd[item];
  const float slope = JoinWarp(sum, Sum{}) / static_cast<float>(width) * rstd * rstd;
  for (std::int64_t c = LaneOfWarp(); c < width; c += kWarp) {
    const float a = LoadAny(g.dqkv, g.dtype, at + c) * WeightAt(weight, g.dtype, c);
    StoreAny(g.dqkv, g.dtype, at + c, (a - LoadAny(g.kept, g.dtype, dense + c) * slope) * rstd);
  }
}

// Number of norms over all rows.
template <class Arguments>
std::int64_t ItemsOf(const Arguments& g) {
  return g.rows * HeadNorms(g).InRow();
}

void HeadNormForward(CudaCheck& check, const FtHeadNormForward& g) {
  const std::int64_t items = ItemsOf(g);
  if (items == 0) return;
  FT_LAUNCH(HeadNormForwardKernel, dim3(Blocks(items * kWarp, kBlock)), dim3(kBlock), 0,
            check.stream(), g);
}

void HeadNormBackwardInput(CudaCheck& check, const FtHeadNormBackwardInput& g) {
  const std::int64_t items = ItemsOf(g);
  if (items == 0) return;
  FT_LAUNCH(HeadNormBackwardInputKernel, dim3(Blocks(items * kWarp, kBlock)), dim3(kBlock), 0,
            check.stream(), g);
}

// Terms of the query or key weight's gradient: "row" counts the norms of one kind over all rows.
struct HeadTerm {
  const void* dy;
  const void* x;
  const float* rstd;
  FtDtype dtype;
  HeadNorms norms;
  std::int64_t first, count;  // norms [first, first + count) of each row

  FT_DEVICE void Add(std::int64_t row, std::int64_t col, std::int64_t left, float (&a)[kOctet],
                     float (&)[kOctet]) const {
    const std::int64_t norm = first + row % count, of_row = row / count;
    const std::int64_t at = of_row * norms.RowWidth() + norms.First(norm) + col;
    float of_dy[kOctet], of_x[kOctet];
    LoadAnyOctet(dy, dtype, at, left, of_dy);
    LoadAnyOctet(x, dtype, at, left, of_x);
    const float of_rstd = rstd[of_row * norms.InRow() + norm];
#pragma unroll
    for (int i = 0; i < kOctet; ++i) a[i] += of_dy[i] * (of_x[i] * of_rstd);
  }
};

void HeadNormBackwardWeight(CudaCheck& check, const FtHeadNormBackwardWeight& g) {
  // Queries and keys have separate weights, so there are two sums over columns.
  const HeadNorms norms(g);
  HeadTerm term{g.kept_grad, g.kept, g.rstd, g.dtype, norms, 0, norms.queries};
  SumColumns(check.queue(), check, term, g.rows * norms.queries, norms.query_width, g.q_weight_grad,
             nullptr, g.dtype, g.accumulate);
  term.first = norms.queries;
  term.count = norms.keys;
  SumColumns(check.queue(), check, term, g.rows * norms.keys, norms.key_width, g.k_weight_grad,
             nullptr, g.dtype, g.accumulate);
}

// ---- heads of latent attention: one block per row

// Sizes and offsets of a row's parts, in elements.
struct LatentSizes {
  std::int64_t plain, query, of_kv, of_qkv, keys, values;

  FT_DEVICE explicit LatentSizes(const FtLatentHeads& g)
      : plain(g.head_dim - g.rotary),
        query(std::int64_t{g.heads} * g.head_dim),
        of_kv(g.heads * (plain + g.value_dim)),
        of_qkv(std::int64_t{g.heads} * (2 * g.head_dim + g.value_dim)),
        keys(query),
        values(2 * query) {}
};

// One output element per thread and step. The source follows from its position: query, key without
// rotary embedding, shared rotary key, or value.
__global__ void LatentJoinKernel(FtLatentHeads g) {
  const LatentSizes n(g);
  const std::int64_t row = blockIdx.x;
  for (std::int64_t i = threadIdx.x; i < n.of_qkv; i += blockDim.x) {
    float x;
    if (i < n.keys) {
      x = LoadAny(g.q, g.dtype, row * n.query + i);
    } else if (i < n.values) {
      const std::int64_t head = (i - n.keys) / g.head_dim, c = (i - n.keys) % g.head_dim;
      x = c < n.plain ? LoadAny(g.kv, g.dtype, row * n.of_kv + head * (n.plain + g.value_dim) + c)
                      : LoadAny(g.turned_key, g.dtype, row * g.rotary + c - n.plain);
    } else {
      const std::int64_t head = (i - n.values) / g.value_dim, c = (i - n.values) % g.value_dim;
      x = LoadAny(g.kv, g.dtype, row * n.of_kv + head * (n.plain + g.value_dim) + n.plain + c);
    }
    StoreAny(g.qkv, g.dtype, row * n.of_qkv + i, x);
  }
}

// The rotary key's gradient is summed over the heads in order by one thread per element.
__global__ void LatentSplitKernel(FtLatentHeads g) {
  const LatentSizes n(g);
  const std::int64_t row = blockIdx.x, from = row * n.of_qkv, wide = n.plain + g.value_dim;
  for (std::int64_t i = threadIdx.x; i < n.query; i += blockDim.x) {
    StoreAny(g.q, g.dtype, row * n.query + i, LoadAny(g.qkv, g.dtype, from + i));
  }
  for (std::int64_t i = threadIdx.x; i < n.of_kv; i += blockDim.x) {
    const std::int64_t head = i / wide, c = i % wide;
    const std::int64_t at =
        c < n.plain ? n.keys + head * g.head_dim + c : n.values + head * g.value_dim + c - n.plain;
    StoreAny(g.kv, g.dtype, row * n.of_kv + i, LoadAny(g.qkv, g.dtype, from + at));
  }
  for (std::int64_t i = threadIdx.x; i < g.rotary; i += blockDim.x) {
    float sum = 0.0F;
    for (std::int64_t head = 0; head < g.heads; ++head) {
      sum += LoadAny(g.qkv, g.dtype, from + n.keys + head * g.head_dim + n.plain + i);
    }
    StoreAny(g.turned_key, g.dtype, row * g.rotary + i, sum);
  }
}

void LatentHeads(CudaCheck& check, const FtLatentHeads& g) {
  if (g.rows == 0) return;
  const dim3 grid(Blocks(g.rows, 1)), block(kBlock);
  if (g.inverse != 0) {
    FT_LAUNCH(LatentSplitKernel, grid, block, 0, check.stream(), g);
  } else {
    FT_LAUNCH(LatentJoinKernel, grid, block, 0, check.stream(), g);
  }
}

// ---- attention sinks

// A sink adds e^sink to the softmax's denominator, so out shrinks by e^(lse - new lse). One warp
// per head and row.
__global__ void SinkForwardKernel(FtSinkForward g) {
  const std::int64_t item = ItemOfWarp();
  if (item >= g.rows * g.heads) return;
  const float sink = LoadAny(g.sinks, g.sinks_dtype, item % g.heads), before = g.lse[item];
  const float most = sink > before ? sink : before;
  const float after = most + logf(expf(before - most) + expf(sink - most));
  const float share = expf(before - after);
  __syncwarp();  // all lanes have read the old lse
  for (std::int64_t c = LaneOfWarp(); c < g.head_dim; c += kWarp) {
    const std::int64_t at = item * g.head_dim + c;
    StoreAny(g.out, g.dtype, at, LoadAny(g.out, g.dtype, at) * share);
  }
  if (LaneOfWarp() == 0) g.lse[item] = after;
}

// One block per head; its threads split the rows, and the sum is joined in fp64.
__global__ void SinkBackwardKernel(FtSinkBackward g) {
  const std::int64_t head = blockIdx.x;
  const float sink = LoadAny(g.sinks, g.sinks_dtype, head);
  double sum = 0.0;
  for (std::int64_t row = threadIdx.x; row < g.rows; row += blockDim.x) {
    const std::int64_t item = row * g.heads + head;
    float dot = 0.0F;
    for (std::int64_t i = 0; i < g.head_dim; ++i) {
      dot += LoadAny(g.out, g.dtype, item * g.head_dim + i) *
             LoadAny(g.dout, g.dtype, item * g.head_dim + i);
    }
    sum -= static_cast<double>(expf(sink - g.lse[item]) * dot);
  }
  sum = JoinBlock(sum, 0.0, Sum{});
  if (threadIdx.x != 0) return;
  const float before = g.accumulate != 0 ? LoadAny(g.sinks_grad, g.grad_dtype, head) : 0.0F;
  StoreAny(g.sinks_grad, g.grad_dtype, head, static_cast<float>(static_cast<double>(before) + sum));
}

void SinkForward(CudaCheck& check, const FtSinkForward& g) {
  if (g.rows == 0) return;
  FT_LAUNCH(SinkForwardKernel, dim3(Blocks(g.rows * g.heads * kWarp, kBlock)), dim3(kBlock), 0,
            check.stream(), g);
}

void SinkBackward(CudaCheck& check, const FtSinkBackward& g) {
  FT_LAUNCH(SinkBackwardKernel, dim3(static_cast<unsigned>(g.heads)), dim3(kBlock), 0,
            check.stream(), g);
}

}  // namespace

void SetCudaHeadEntries(FtDeviceApi& api) {
  SetCuda<&FtDeviceApi::rope, &Rope>(api);
  SetCuda<&FtDeviceApi::head_norm_forward, &HeadNormForward>(api);
  SetCuda<&FtDeviceApi::head_norm_backward_input, &HeadNormBackwardInput>(api);
  SetCuda<&FtDeviceApi::head_norm_backward_weight, &HeadNormBackwardWeight>(api);
  SetCuda<&FtDeviceApi::latent_heads, &LatentHeads>(api);
  SetCuda<&FtDeviceApi::sink_forward, &SinkForward>(api);
  SetCuda<&FtDeviceApi::sink_backward, &SinkBackward>(api);
}

}  // namespace foretrain
