// Cross entropy over whole rows of logits, or over one rank's columns of them. One block per row.
// Sums of exponentials carry their maximum, so that a row is read once.
#include "kernels/cuda/device/entries.h"
#include "kernels/cuda/own/kernel.cuh"

namespace foretrain {
namespace {

constexpr float kNone = -INFINITY;

// State of a row read so far: its maximum, without NaN, and the sum of e^(x - maximum), which NaN
// makes NaN. The sum is in fp64,
// because a vocabulary has many terms.
struct Exponentials {
  float largest;
  double sum;
};

// Exponentials of `cols` columns of `row`; every thread of the block receives the result.
template <class T>
FT_DEVICE Exponentials ReadRow(const T* row, std::int64_t cols) {
  Exponentials mine{kNone, 0.0};
  const std::int64_t step = std::int64_t{blockDim.x} * kOctet;
  for (std::int64_t c = std::int64_t{threadIdx.x} * kOctet; c < cols; c += step) {
    float x[kOctet];
    LoadOctet(row + c, cols - c, x);
    if (cols - c < kOctet) {
#pragma unroll
      for (int i = 0; i < kOctet; ++i) x[i] = i < cols - c ? x[i] : kNone;
    }
    float largest = x[0];
#pragma unroll
    for (int i = 1; i < kOctet; ++i) largest = fmaxf(largest, x[i]);
    if (largest > mine.largest) {
      mine.sum *= static_cast<double>(expf(mine.largest - largest));
      mine.largest = largest;
    }
    const float shift = mine.largest == kNone ? 0.0F : mine.largest;
    float sum = 0.0F;
#pragma unroll
    for (int i = 0; i < kOctet; ++i) sum += expf(x[i] - shift);
    mine.sum += static_cast<double>(sum);
  }
  // The maximum is reduced first; each thread then rescales its sum once, and the sums are reduced.
  const float largest = JoinBlock(mine.largest, kNone, Most{});
  const double scaled =
      largest == kNone ? mine.sum : mine.sum * static_cast<double>(expf(mine.largest - largest));
  return {largest, JoinBlock(scaled, 0.0, Sum{})};
}

// lse = maximum + log(sum), in fp64 until the end.
template <class T>
__global__ void __launch_bounds__(1024)
    LogSumExpKernel(FtCrossEntropyForward g, std::int64_t used) {
  const std::int64_t row = blockIdx.x;
  const Exponentials all = ReadRow(static_cast<const T*>(g.logits) + row * g.vocab, used);
  if (threadIdx.x == 0) {
    g.lse[row] = static_cast<float>(static_cast<double>(all.largest) + log(all.sum));
  }
}

// Loss terms lse - picked of one row, 0 if its target does not count.
struct PickLogit {
  FtCrossEntropyForward g;
  std::int64_t used;  // columns that are ids
  FT_DEVICE float Term(std::int64_t row) const {
    const std::int64_t target = g.targets[row];
    if (target < 0 || target >= used) return 0.0F;
    return g.lse[row] - LoadAny(g.logits, g.dtype, row * g.vocab + target);
  }
};
// Same, with maximum, sum and picked logit already combined over ranks. Stores lse on the way,
// because the backward needs it.
struct PickOfRanks {
  FtVocabLoss g;
  FT_DEVICE float Term(std::int64_t row) const {
    const double lse = static_cast<double>(g.max[row]) + log(static_cast<double>(g.sum[row]));
    g.lse[row] = static_cast<float>(lse);
    const std::int64_t target = g.targets[row];
    if (target < 0 || target >= g.all_ids) return 0.0F;
    return static_cast<float>(lse - static_cast<double>(g.picked[row]));
  }
};

// partials[block] is the sum of the block's terms in fp64.
template <class Pick>
__global__ void LossKernel(Pick pick, std::int64_t rows, double* partials) {
  double sum = 0.0;
  const std::int64_t step = std::int64_t{gridDim.x} * kBlock;
  for (std::int64_t row = std::int64_t{blockIdx.x} * kBlock + threadIdx.x; row < rows;
       row += step) {
    sum += static_cast<double>(pick.Term(row));
  }
  const double total = JoinBlock(sum, 0.0, Sum{});
  if (threadIdx.x == 0) partials[blockIdx.x] = total;
}

// One block adds the partials in order: the loss has the same bits in every run.
__global__ void JoinLossKernel(const double* partials, int count, float scale, int accumulate,
                               float* loss) {
  double sum = 0.0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kBlock) sum += partials[i];
  const double total = JoinBlock(sum, 0.0, Sum{}) * static_cast<double>(scale);
  if (threadIdx.x != 0) return;
  *loss = static_cast<float>(accumulate != 0 ? static_cast<double>(*loss) + total : total);
}

// Two launches: at most 256 blocks write partial sums, then one block adds them. Atomics would add
// them in a different order in each run.
template <class Pick>
void SumLoss(FtQueue* queue, CudaCheck& check, const Pick& pick, std::int64_t rows, float scale,
             int accumulate, float* loss) {
  constexpr std::int64_t kMaxBlocks = 256;
  const std::int64_t wanted = (rows + kBlock - 1) / kBlock;
  const auto blocks = static_cast<unsigned>(wanted < kMaxBlocks ? wanted : kMaxBlocks);
  auto* const partials =
      reinterpret_cast<double*>(check.Workspace(kMaxBlocks * std::int64_t{sizeof(double)}));
  if (partials == nullptr) return;
  if (blocks > 0) {
    FT_LAUNCH(LossKernel<Pick>, dim3(blocks), dim3(kBlock), 0, StreamOf(queue), pick, rows,
              partials);
  }
  FT_LAUNCH(JoinLossKernel, dim3(1), dim3(kBlock), 0, StreamOf(queue), partials,
            static_cast<int>(blocks), scale, accumulate, loss);
}

// Number of columns of a rank that stand for an id; all columns if all_ids is 0.
std::int64_t UsedColumns(std::int64_t vocab, std::int64_t first_id, std::int64_t all_ids) {
  if (all_ids == 0) return vocab;
  const std::int64_t rest = first_id >= all_ids ? 0 : all_ids - first_id;
  return rest < vocab ? rest : vocab;
}

void CrossEntropyForward(CudaCheck& check, const FtCrossEntropyForward& g) {
  const std::int64_t used = UsedColumns(g.vocab, 0, g.all_ids);
  if (g.rows > 0) {
    WithType(g.dtype, [&](auto type) {
      FT_LAUNCH(LogSumExpKernel<decltype(type)>, dim3(Blocks(g.rows, 1)), dim3(RowThreads(g.vocab)),
                0, check.stream(), g, used);
    });
  }
  SumLoss(check.queue(), check, PickLogit{g, used}, g.rows, g.scale, g.accumulate, g.loss);
}

// Gradient of one row.
struct RowGradient {
  std::int64_t used, column;  // columns that are ids, and that of the target
  bool counts;                // a row whose target adds nothing to the loss gets 0
  float lse, scale, softcap;
};

// Writes the gradient over the logits. With a soft cap these are y = cap tanh(x / cap), and dy/dx =
// 1 - (y / cap)^2.
template <class T>
FT_DEVICE void WriteGradient(T* logits, std::int64_t vocab, const RowGradient& g) {
  const float inverse = g.softcap > 0.0F ? 1.0F / g.softcap : 0.0F;
  const float scale = g.counts ? g.scale : 0.0F;
  const std::int64_t used = g.counts ? g.used : 0;
  const std::int64_t step = std::int64_t{blockDim.x} * kOctet;
  for (std::int64_t c = std::int64_t{threadIdx.x} * kOctet; c < vocab; c += step) {
    const std::int64_t left = used - c;  // columns from c on that are ids
    float x[kOctet], d[kOctet];
    LoadOctet(logits + c, vocab - c, x);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) d[i] = scale * expf(x[i] - g.lse);
    if (g.column >= c && g.column < c + kOctet) {
#pragma unroll
      for (int i = 0; i < kOctet; ++i) {
        if (c + i == g.column) d[i] = scale * (expf(x[i] - g.lse) - 1.0F);
      }
    }
    if (inverse > 0.0F) {
#pragma unroll
      for (int i = 0; i < kOctet; ++i) d[i] *= 1.0F - x[i] * inverse * (x[i] * inverse);
    }
    if (left < kOctet) {
#pragma unroll
      for (int i = 0; i < kOctet; ++i) d[i] = i < left ? d[i] : 0.0F;
    }
    StoreOctet(logits + c, vocab - c, d);
  }
}

template <class T>
__global__ void __launch_bounds__(1024)
    CrossEntropyBackwardKernel(FtCrossEntropyBackward g, std::int64_t used, std::int64_t ids) {
  const std::int64_t row = blockIdx.x, target = g.targets[row];
  const bool counts = target >= 0 && target < ids;
  const float lse = counts ? g.lse[row] : 0.0F, scale = ScaledBy(g.scale, g.loss_scale);
  WriteGradient(static_cast<T*>(g.logits) + row * g.vocab, g.vocab,
                {used, target - g.first_id, counts, lse, scale, g.softcap});
}

void CrossEntropyBackward(CudaCheck& check, const FtCrossEntropyBackward& g) {
  if (g.rows == 0) return;
  WithType(g.dtype, [&](auto type) {
    FT_LAUNCH(CrossEntropyBackwardKernel<decltype(type)>, dim3(Blocks(g.rows, 1)),
              dim3(RowThreads(g.vocab)), 0, check.stream(), g,
              UsedColumns(g.vocab, g.first_id, g.all_ids), g.all_ids == 0 ? g.vocab : g.all_ids);
  });
}

// Reads the row for its log-sum-exp, and again for the gradient. Rows of the blocks in flight fit
// the L2 cache, so that memory sees one read and one write. Writes the row's term of the loss.
template <class T>
__global__ void __launch_bounds__(1024)
    CrossEntropyKernel(FtCrossEntropy g, std::int64_t used, std::int64_t ids) {
  const std::int64_t row = blockIdx.x;
  T* const logits = static_cast<T*>(g.logits) + row * g.vocab;
  const Exponentials all = ReadRow(logits, used);
  const float lse = static_cast<float>(static_cast<double>(all.largest) + log(all.sum));
  const std::int64_t target = g.targets[row];
  if (threadIdx.x == 0) {
    g.terms[row] = target < 0 || target >= used ? 0.0F : lse - Widen(logits[target]);
  }
  __syncthreads();  // the target's logit is read before the gradient overwrites it
  const float scale = ScaledBy(g.gradient_scale, g.loss_scale);
  WriteGradient(logits, g.vocab,
                {used, target, target >= 0 && target < ids, lse, scale, g.softcap});
}

struct GivenTerm {
  const float* terms;
  FT_DEVICE float Term(std::int64_t row) const { return terms[row]; }
};

void CrossEntropy(CudaCheck& check, const FtCrossEntropy& g) {
  if (g.rows > 0) {
    WithType(g.dtype, [&](auto type) {
      FT_LAUNCH(CrossEntropyKernel<decltype(type)>, dim3(Blocks(g.rows, 1)),
                dim3(RowThreads(g.vocab)), 0, check.stream(), g, UsedColumns(g.vocab, 0, g.all_ids),
                g.all_ids == 0 ? g.vocab : g.all_ids);
    });
  }
  SumLoss(check.queue(), check, GivenTerm{g.terms}, g.rows, g.scale, g.accumulate, g.loss);
}

// ---- with the vocabulary split over ranks

// As in ReadRow, but only the maximum: the other ranks' maxima come before the exponentials.
template <class T>
__global__ void __launch_bounds__(1024) VocabMaxKernel(FtVocabMax g, std::int64_t used) {
  const std::int64_t row = blockIdx.x, step = std::int64_t{blockDim.x} * kOctet;
  const T* const logits = static_cast<const T*>(g.logits) + row * g.vocab;
  float largest = kNone;
  for (std::int64_t c = std::int64_t{threadIdx.x} * kOctet; c < used; c += step) {
    float x[kOctet];
    LoadOctet(logits + c, used - c, x);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      if (c + i < used) largest = Most{}(largest, x[i]);
    }
  }
  largest = JoinBlock(largest, kNone, Most{});
  if (threadIdx.x == 0) g.max[row] = largest;
}

// `max` is that of all ranks by now, so the ranks' sums can be added.
template <class T>
__global__ void __launch_bounds__(1024) VocabSumsKernel(FtVocabSums g, std::int64_t used) {
  const std::int64_t row = blockIdx.x, step = std::int64_t{blockDim.x} * kOctet;
  const T* const logits = static_cast<const T*>(g.logits) + row * g.vocab;
  const float largest = g.max[row];
  double sum = 0.0;
  for (std::int64_t c = std::int64_t{threadIdx.x} * kOctet; c < used; c += step) {
    float x[kOctet], part = 0.0F;
    LoadOctet(logits + c, used - c, x);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) part += c + i < used ? expf(x[i] - largest) : 0.0F;
    sum += static_cast<double>(part);
  }
  sum = JoinBlock(sum, 0.0, Sum{});
  if (threadIdx.x != 0) return;
  const std::int64_t column = g.targets[row] - g.first_id;
  g.sum[row] = static_cast<float>(sum);
  g.picked[row] = column >= 0 && column < used ? Widen(logits[column]) : 0.0F;
}

void VocabMax(CudaCheck& check, const FtVocabMax& g) {
  if (g.rows == 0) return;
  WithType(g.dtype, [&](auto type) {
    FT_LAUNCH(VocabMaxKernel<decltype(type)>, dim3(Blocks(g.rows, 1)), dim3(RowThreads(g.vocab)), 0,
              check.stream(), g, UsedColumns(g.vocab, g.first_id, g.all_ids));
  });
}

void VocabSums(CudaCheck& check, const FtVocabSums& g) {
  if (g.rows == 0) return;
  WithType(g.dtype, [&](auto type) {
    FT_LAUNCH(VocabSumsKernel<decltype(type)>, dim3(Blocks(g.rows, 1)), dim3(RowThreads(g.vocab)),
              0, check.stream(), g, UsedColumns(g.vocab, g.first_id, g.all_ids));
  });
}

void VocabLoss(CudaCheck& check, const FtVocabLoss& g) {
  SumLoss(check.queue(), check, PickOfRanks{g}, g.rows, g.scale, g.accumulate, g.loss);
}

struct SquareOfLse {
  FtZLoss g;
  FT_DEVICE float Term(std::int64_t row) const {
    const std::int64_t target = g.targets[row];
    return target < 0 || target >= g.vocabulary ? 0.0F : g.lse[row] * g.lse[row];
  }
};

void ZLoss(CudaCheck& check, const FtZLoss& g) {
  SumLoss(check.queue(), check, SquareOfLse{g}, g.rows, g.scale * g.weight, /*accumulate=*/1,
          g.loss);
}

// A gradient d = scale * (softmax - onehot) gains 2 weight lse * scale * softmax, that is 2 weight
// lse * (d + scale * onehot).
template <class T>
__global__ void __launch_bounds__(1024) ZLossBackwardKernel(FtZLossBackward g, std::int64_t ids) {
  const std::int64_t row = blockIdx.x, step = std::int64_t{blockDim.x} * kOctet;
  const std::int64_t target = g.targets[row], column = target - g.first_id;
  if (target < 0 || target >= ids) return;
  const float slope = 2.0F * g.weight * g.lse[row], scale = ScaledBy(g.scale, g.loss_scale);
  T* const d = static_cast<T*>(g.logits) + row * g.vocab;
  for (std::int64_t c = std::int64_t{threadIdx.x} * kOctet; c < g.vocab; c += step) {
    float x[kOctet];
    LoadOctet(d + c, g.vocab - c, x);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) x[i] += slope * (x[i] + (c + i == column ? scale : 0.0F));
    StoreOctet(d + c, g.vocab - c, x);
  }
}

void ZLossBackward(CudaCheck& check, const FtZLossBackward& g) {
  if (g.rows == 0) return;
  WithType(g.dtype, [&](auto type) {
    FT_LAUNCH(ZLossBackwardKernel<decltype(type)>, dim3(Blocks(g.rows, 1)),
              dim3(RowThreads(g.vocab)), 0, check.stream(), g,
              g.all_ids == 0 ? g.vocab : g.all_ids);
  });
}

// One thread per row; the last token of a sequence has no target.
__global__ void ShiftTargetsKernel(FtShiftTargets g) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  if (row >= g.rows) return;
  g.out[row] = (row + 1) % g.sequence == 0 ? -1 : g.targets[row + 1];
}

void ShiftTargets(CudaCheck& check, const FtShiftTargets& g) {
  if (g.rows == 0) return;
  FT_LAUNCH(ShiftTargetsKernel, dim3(Blocks(g.rows, kBlock)), dim3(kBlock), 0, check.stream(), g);
}

}  // namespace

void SetCudaLossEntries(FtDeviceApi& api) {
  SetCuda<&FtDeviceApi::cross_entropy_forward, &CrossEntropyForward>(api);
  SetCuda<&FtDeviceApi::cross_entropy_backward, &CrossEntropyBackward>(api);
  SetCuda<&FtDeviceApi::cross_entropy, &CrossEntropy>(api);
  SetCuda<&FtDeviceApi::vocab_max, &VocabMax>(api);
  SetCuda<&FtDeviceApi::vocab_sums, &VocabSums>(api);
  SetCuda<&FtDeviceApi::vocab_loss, &VocabLoss>(api);
  SetCuda<&FtDeviceApi::shift_targets, &ShiftTargets>(api);
  SetCuda<&FtDeviceApi::z_loss, &ZLoss>(api);
  SetCuda<&FtDeviceApi::z_loss_backward, &ZLossBackward>(api);
}

}  // namespace foretrain
