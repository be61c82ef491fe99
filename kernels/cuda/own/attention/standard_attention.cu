// Attention with materialized score matrices, as unfused programs compute it. One block per query,
// so that the softmax sees the fp32 scores before they are rounded.
#include "kernels/cuda/device/entries.h"
#include "kernels/cuda/own/kernel.cuh"
#include "kernels/cuda/own/random.cuh"

namespace foretrain {
namespace {

constexpr float kNone = -INFINITY;
constexpr int kThreads = 64;  // per query or key

// Dot product of n elements by one thread, in element order.
FT_DEVICE float Dot(const void* a, std::int64_t a_at, const void* b, std::int64_t b_at,
                    std::int32_t n, FtDtype dtype) {
  float sum = 0.0F;
  for (std::int32_t c = 0; c < n; ++c)
    sum += LoadAny(a, dtype, a_at + c) * LoadAny(b, dtype, b_at + c);
  return sum;
}

// Offsets, in elements, of the vectors of one head. Row r lies r * row_stride further.
template <class Arguments>
struct HeadPlace {
  std::int64_t query, key, out, matrix;

  FT_DEVICE HeadPlace(const Arguments& g, std::int64_t sample, std::int64_t head)
      : query(sample * g.sequence * g.row_stride + head * g.head_dim),
        key(sample * g.sequence * g.row_stride + head / (g.heads / g.kv_heads) * g.head_dim),
        out(sample * g.sequence * g.heads * g.head_dim + head * g.head_dim),
        matrix((sample * g.heads + head) * g.sequence * g.sequence) {}
};

// Dynamic shared memory: the row's scores, then weights, then weights after dropout. It limits the
// sequence length to what a block can hold.
__global__ void __launch_bounds__(kThreads, 4)
    StandardForwardKernel(FtStandardAttentionForward g, KeepRule rule) {
  FT_DYN_SHARED(float, row);
  const std::int64_t i = blockIdx.x, head = blockIdx.y, sample = blockIdx.z, s = g.sequence;
  const HeadPlace<FtStandardAttentionForward> at(g, sample, head);
  const std::int64_t start = g.document_starts != nullptr ? g.document_starts[sample * s + i] : 0;
  const std::int64_t seen = g.window > 0 && i + 1 > g.window ? i + 1 - g.window : 0;
  const std::int64_t first = seen > start ? seen : start;
  // Scores above the diagonal are stored too, as unfused programs do, but get no weight.
  float most = kNone;
  for (std::int64_t j = threadIdx.x; j < s; j += kThreads) {
    const float score = g.scale * Dot(g.q, at.query + i * g.row_stride, g.k,
                                      at.key + j * g.row_stride, g.head_dim, g.dtype);
    StoreAny(g.scores, g.dtype, at.matrix + i * s + j, score);
    row[j] = j >= first && j <= i ? score : kNone;
    most = Most{}(most, row[j]);
  }
  most = JoinBlock(most, kNone, Most{});
  float sum = 0.0F;
  for (std::int64_t j = threadIdx.x; j < s; j += kThreads) {
    row[j] = expf(row[j] - most);
    sum += row[j];
  }
  sum = SumBlock(sum);
  for (std::int64_t j = threadIdx.x; j < s; j += kThreads) {
    const std::int64_t place = at.matrix + i * s + j;
    float weight = row[j] / sum;
    StoreAny(g.weights, g.dtype, place, weight);
    if (g.mask != nullptr) {
      const float factor = rule.Factor(sample, head, i, j);
      g.mask[place] = factor > 0.0F ? 1 : 0;
      weight *= factor;
      StoreAny(g.dropped, g.dtype, place, weight);
    }
    row[j] = weight;
  }
  __syncthreads();
  if (g.out == nullptr) return;
  for (std::int32_t c = static_cast<std::int32_t>(threadIdx.x); c < g.head_dim; c += kThreads) {
    float out = 0.0F;
    for (std::int64_t j = first; j <= i; ++j) {
      out += row[j] * LoadAny(g.v, g.dtype, at.key + j * g.row_stride + c);
    }
    StoreAny(g.out, g.dtype, at.out + i * g.heads * g.head_dim + c, out);
  }
}

// Gradient of one query's scores, w (d - sum over keys of w d), and dq.
__global__ void __launch_bounds__(kThreads, 4) StandardQueryKernel(FtStandardAttentionBackward g) {
  FT_DYN_SHARED(float, row);
  const std::int64_t i = blockIdx.x, head = blockIdx.y, s = g.sequence;
  const HeadPlace<FtStandardAttentionBackward> at(g, blockIdx.z, head);
  const float kept = 1.0F / (1.0F - g.probability);
  float sum = 0.0F;
  for (std::int64_t j = threadIdx.x; j < s; j += kThreads) {
    const std::int64_t place = at.matrix + i * s + j;
    float d = Dot(g.dout, at.out + i * g.heads * g.head_dim, g.v, at.key + j * g.row_stride,
                  g.head_dim, g.dtype);
    if (g.mask != nullptr) d = g.mask[place] != 0 ? kept * d : 0.0F;
    row[j] = d;
    sum += LoadAny(g.weights, g.dtype, place) * d;
  }
  sum = SumBlock(sum);
  for (std::int64_t j = threadIdx.x; j < s; j += kThreads) {
    const std::int64_t place = at.matrix + i * s + j;
    row[j] = LoadAny(g.weights, g.dtype, place) * (row[j] - sum);
    StoreAny(g.d_scores, g.dtype, place, row[j]);
  }
  __syncthreads();
  for (std::int32_t c = static_cast<std::int32_t>(threadIdx.x); c < g.head_dim; c += kThreads) {
    float dq = 0.0F;
    for (std::int64_t j = 0; j <= i; ++j) {
      dq += row[j] * LoadAny(g.k, g.dtype, at.key + j * g.row_stride + c);
    }
    StoreAny(g.dq, g.dtype, at.query + i * g.row_stride + c, g.scale * dq);
  }
}

// dk and dv of one key, over the queries of its group's heads in order, without atomics.
__global__ void __launch_bounds__(kThreads, 4) StandardKeyKernel(FtStandardAttentionBackward g) {
  const std::int64_t j = blockIdx.x, kv_head = blockIdx.y, sample = blockIdx.z, s = g.sequence;
  const std::int64_t group = g.heads / g.kv_heads;
  const void* const weights = g.mask != nullptr ? g.dropped : g.weights;
  for (std::int32_t c = static_cast<std::int32_t>(threadIdx.x); c < g.head_dim; c += kThreads) {
    float dk = 0.0F, dv = 0.0F;
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      const HeadPlace<FtStandardAttentionBackward> at(g, sample, head);
      for (std::int64_t i = j; i < s; ++i) {
        const std::int64_t place = at.matrix + i * s + j;
        dk += LoadAny(g.d_scores, g.dtype, place) *
              LoadAny(g.q, g.dtype, at.query + i * g.row_stride + c);
        dv += LoadAny(weights, g.dtype, place) *
              LoadAny(g.dout, g.dtype, at.out + i * g.heads * g.head_dim + c);
      }
    }
    const std::int64_t to = sample * s * g.row_stride + j * g.row_stride + kv_head * g.head_dim + c;
    StoreAny(g.dk, g.dtype, to, g.scale * dk);
    StoreAny(g.dv, g.dtype, to, dv);
  }
}

// Limits of these kernels, then the checks of every device.
template <class Arguments>
void CheckStandard(CudaCheck& check, const Arguments& g) {
  check.AtMost("batch", g.batch, 65535).AtMost("heads", g.heads, 65535);
  check.Read(g);
}

// A given scale of 0 means 1 / sqrt(head_dim).
template <class Arguments>
Arguments Scaled(const Arguments& g) {
  Arguments scaled = g;
  scaled.scale = g.scale > 0.0F ? g.scale : 1.0F / sqrtf(static_cast<float>(g.head_dim));
  return scaled;
}

// One block per query, head and sample.
template <class Arguments>
dim3 QueryGrid(const Arguments& g) {
  return dim3(Blocks(g.sequence, 1), static_cast<unsigned>(g.heads),
              static_cast<unsigned>(g.batch));
}

FtStatus Forward(FtQueue* queue, const FtStandardAttentionForward* g) {
  CudaCheck check(queue, FT_KERNEL_STANDARD_ATTENTION_FORWARD);
  CheckStandard(check, *g);
  if (!check.ok() || g->batch * g->sequence == 0) return check.status();
  const std::int64_t bytes = g->sequence * std::int64_t{sizeof(float)};
  const FtStatus status = AllowShared(queue, "standard_attention_forward",
                                      reinterpret_cast<const void*>(&StandardForwardKernel), bytes);
  if (status != FT_OK) return status;
  FT_LAUNCH(StandardForwardKernel, QueryGrid(*g), dim3(kThreads), static_cast<std::size_t>(bytes),
            StreamOf(queue), Scaled(*g), KeepRuleOf(g->random));
  return check.Launched();
}

// The query kernel stores d_scores, which the key kernel reads; both run in order on the queue.
FtStatus Backward(FtQueue* queue, const FtStandardAttentionBackward* g) {
  CudaCheck check(queue, FT_KERNEL_STANDARD_ATTENTION_BACKWARD);
  CheckStandard(check, *g);
  if (!check.ok() || g->batch * g->sequence == 0) return check.status();
  const std::int64_t bytes = g->sequence * std::int64_t{sizeof(float)};
  const FtStatus status = AllowShared(queue, "standard_attention_backward",
                                      reinterpret_cast<const void*>(&StandardQueryKernel), bytes);
  if (status != FT_OK) return status;
  FT_LAUNCH(StandardQueryKernel, QueryGrid(*g), dim3(kThreads), static_cast<std::size_t>(bytes),
            StreamOf(queue), Scaled(*g));
  FT_LAUNCH(StandardKeyKernel,
            dim3(Blocks(g->sequence, 1), static_cast<unsigned>(g->kv_heads),
                 static_cast<unsigned>(g->batch)),
            dim3(kThreads), 0, StreamOf(queue), Scaled(*g));
  return check.Launched();
}

}  // namespace

void SetCudaStandardAttentionEntries(FtDeviceApi& api) {
  api.standard_attention_forward = &Forward;
  api.standard_attention_backward = &Backward;
}

}  // namespace foretrain
