// Longer than 400 lines: one entry for each of the table's twenty kernels, all of the same form.
#include "kernels/cpu/cpu_kernels.h"

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <limits>

#include "kernels/cpu/cpu_queue.h"
#include "kernels/cpu/onednn_gemm.h"
#include "kernels/cpu/scratch.h"

namespace foretrain {
namespace {

// Elements of a tensor stay below this, so that products of two sizes and byte counts fit an
// int64_t.
constexpr std::int64_t kMostElements = std::int64_t{1} << 60;

// Collects the first thing that is wrong with a call's arguments.
class Check {
 public:
  Check(FtQueue* queue, const char* kernel, FtDtype dtype) : queue_(queue), kernel_(kernel) {
    if (dtype != FT_F32) {
      Refuse(FT_UNSUPPORTED, "dtype %d: this device computes in fp32 (dtype 0)",
             static_cast<int>(dtype));
    }
  }

  // `value` must be a size.
  Check& Size(const char* name, std::int64_t value) {
    if (value < 0) {
      Refuse(FT_FAILED, "%s is %lld: a size cannot be negative", name,
             static_cast<long long>(value));
    }
    return *this;
  }

  Check& AtLeast(const char* name, std::int64_t value, std::int64_t least) {
    if (value < least) {
      Refuse(FT_FAILED, "%s is %lld: must be at least %lld", name, static_cast<long long>(value),
             static_cast<long long>(least));
    }
    return *this;
  }

  Check& HeadDim(std::int64_t value) {
    AtLeast("head_dim", value, 1);
    if (value > kMaxHeadDim) {
      Refuse(FT_UNSUPPORTED, "head_dim %lld: this device takes up to %lld",
             static_cast<long long>(value), static_cast<long long>(kMaxHeadDim));
    }
    return *this;
  }

  // A tensor of rows * cols elements: null only where it is empty. Sizes must have been checked
  // before.
  Check& Tensor(const char* name, const void* pointer, std::int64_t rows, std::int64_t cols = 1) {
    if (!ok()) {
      return *this;
    }
    if (cols > 0 && rows > kMostElements / cols) {
      Refuse(FT_FAILED, "%s: %lld * %lld elements are more than this machine can address", name,
             static_cast<long long>(rows), static_cast<long long>(cols));
    } else if (rows * cols > 0 && pointer == nullptr) {
      Refuse(FT_FAILED, "%s is null", name);
    }
    return *this;
  }

  // Row indices of `table`.
  Check& Ids(const std::int32_t* ids, std::int64_t rows, std::int64_t vocab) {
    Tensor("ids", ids, rows);
    for (std::int64_t row = 0; ok() && row < rows; ++row) {
      if (ids[row] < 0 || ids[row] >= vocab) {
        Refuse(FT_FAILED, "row %lld has id %d, outside the vocabulary of %lld",
               static_cast<long long>(row), ids[row], static_cast<long long>(vocab));
      }
    }
    return *this;
  }

  [[gnu::format(printf, 3, 4)]] Check& Refuse(FtStatus status, const char* format, ...) {
    if (ok()) {
      status_ = status;
      const int begin = std::snprintf(queue_->error, sizeof queue_->error, "cpu %s: ", kernel_);
      va_list arguments;
      va_start(arguments, format);
      std::vsnprintf(queue_->error + begin, sizeof queue_->error - static_cast<std::size_t>(begin),
                     format, arguments);
      va_end(arguments);
    }
    return *this;
  }

  bool ok() const { return status_ == FT_OK; }
  FtStatus status() const { return status_; }

 private:
  FtQueue* queue_;
  const char* kernel_;
  FtStatus status_ = FT_OK;
};

std::int32_t Supports(FtKernel kernel, FtDtype dtype) {
  return kernel >= FT_KERNEL_GEMM && kernel < FT_KERNEL_COUNT && dtype == FT_F32 ? 1 : 0;
}

FtStatus Gemm(FtQueue* queue, const FtGemm* g) {
  Check check(queue, "gemm", g->dtype);
  check.Size("m", g->m).Size("n", g->n).Size("k", g->k);
  check.AtLeast("lda", g->lda, g->trans_a != 0 ? g->m : g->k);
  check.AtLeast("ldb", g->ldb, g->trans_b != 0 ? g->k : g->n).AtLeast("ldc", g->ldc, g->n);
  if (!check.ok() || g->m == 0 || g->n == 0) {
    return check.status();
  }
  check.Tensor("a", g->a, g->m, g->k).Tensor("b", g->b, g->k, g->n).Tensor("c", g->c, g->m, g->n);
  if (!check.ok()) {
    return check.status();
  }
  if (queue->gemm == GemmBackend::kOneDnn && g->k > 0) {
    if (const char* error = OneDnnGemm(*g); error != nullptr) {
      check.Refuse(FT_FAILED, "oneDNN: %s (m %lld, n %lld, k %lld)", error,
                   static_cast<long long>(g->m), static_cast<long long>(g->n),
                   static_cast<long long>(g->k));
    }
    return check.status();
  }
  queue->kernels->gemm(*g, queue->scratch.get());
  return FT_OK;
}

FtStatus BiasGrad(FtQueue* queue, const FtBiasGrad* g) {
  Check check(queue, "bias_grad", g->dtype);
  check.Size("rows", g->rows)
      .Size("cols", g->cols)
      .Tensor("dy", g->dy, g->rows, g->cols)
      .Tensor("grad", g->grad, g->cols);
  if (check.ok() && g->cols > 0) {
    queue->kernels->bias_grad(*g);
  }
  return check.status();
}

FtStatus EmbeddingForward(FtQueue* queue, const FtEmbeddingForward* g) {
  Check check(queue, "embedding_forward", g->dtype);
  check.Size("rows", g->rows).Size("cols", g->cols).Size("vocab", g->vocab);
  check.AtLeast("sequence", g->sequence, g->positions == nullptr ? 0 : 1);
  check.Tensor("table", g->table, g->vocab, g->cols).Tensor("out", g->out, g->rows, g->cols);
  check.Ids(g->ids, g->rows, g->vocab);
  if (check.ok() && g->rows > 0 && g->cols > 0) {
    queue->kernels->embedding_forward(*g);
  }
  return check.status();
}

FtStatus EmbeddingBackward(FtQueue* queue, const FtEmbeddingBackward* g) {
  Check check(queue, "embedding_backward", g->dtype);
  check.Size("rows", g->rows).Size("cols", g->cols).Size("vocab", g->vocab);
  check.AtLeast("sequence", g->sequence, g->positions_grad == nullptr ? 0 : 1);
  check.Tensor("dy", g->dy, g->rows, g->cols)
      .Tensor("table_grad", g->table_grad, g->vocab, g->cols);
  check.Ids(g->ids, g->rows, g->vocab);
  if (check.ok() && g->cols > 0 && g->vocab > 0) {
    queue->kernels->embedding_backward(*g);
  }
  return check.status();
}

FtStatus NormForward(FtQueue* queue, const FtNormForward* g) {
  Check check(queue, "norm_forward", g->dtype);
  check.Size("rows", g->rows).AtLeast("cols", g->cols, 1);
  check.Tensor("x", g->x, g->rows, g->cols)
      .Tensor("y", g->y, g->rows, g->cols)
      .Tensor("rstd", g->rstd, g->rows);
  check.Tensor("weight", g->weight, g->cols);
  if (g->rms == 0) {
    check.Tensor("bias", g->bias, g->cols).Tensor("mean", g->mean, g->rows);
  }
  if (check.ok()) {
    queue->kernels->norm_forward(*g);
  }
  return check.status();
}

FtStatus NormBackwardInput(FtQueue* queue, const FtNormBackwardInput* g) {
  Check check(queue, "norm_backward_input", g->dtype);
  check.Size("rows", g->rows).AtLeast("cols", g->cols, 1);
  check.Tensor("dy", g->dy, g->rows, g->cols)
      .Tensor("x", g->x, g->rows, g->cols)
      .Tensor("dx", g->dx, g->rows, g->cols);
  check.Tensor("weight", g->weight, g->cols).Tensor("rstd", g->rstd, g->rows);
  if (g->rms == 0) {
    check.Tensor("mean", g->mean, g->rows);
  }
  if (check.ok()) {
    queue->kernels->norm_backward_input(*g);
  }
  return check.status();
}

FtStatus NormBackwardWeight(FtQueue* queue, const FtNormBackwardWeight* g) {
  Check check(queue, "norm_backward_weight", g->dtype);
  check.Size("rows", g->rows).AtLeast("cols", g->cols, 1);
  check.Tensor("dy", g->dy, g->rows, g->cols)
      .Tensor("x", g->x, g->rows, g->cols)
      .Tensor("rstd", g->rstd, g->rows);
  check.Tensor("weight_grad", g->weight_grad, g->cols);
  if (g->rms == 0) {
    check.Tensor("mean", g->mean, g->rows);
  }
  if (check.ok()) {
    queue->kernels->norm_backward_weight(*g);
  }
  return check.status();
}

FtStatus Rope(FtQueue* queue, const FtRope* g) {
  Check check(queue, "rope", g->dtype);
  check.Size("rows", g->rows)
      .AtLeast("sequence", g->sequence, 1)
      .Size("heads", g->heads)
      .HeadDim(g->head_dim);
  check.AtLeast("row_stride", g->row_stride, std::int64_t{g->heads} * g->head_dim);
  check.Tensor("data", g->data, g->rows, g->row_stride);
  if (g->head_dim % 2 != 0) {
    check.Refuse(FT_FAILED, "head_dim %d: rotary positions need pairs", g->head_dim);
  }
  if (check.ok()) {
    queue->kernels->rope(*g);
  }
  return check.status();
}

// What forward and backward attention have in common.
template <class Arguments>
void CheckAttention(Check& check, const Arguments& g) {
  check.Size("batch", g.batch).Size("sequence", g.sequence).HeadDim(g.head_dim);
  check.AtLeast("heads", g.heads, 1).AtLeast("kv_heads", g.kv_heads, 1);
  if (check.ok() && g.heads % g.kv_heads != 0) {
    check.Refuse(FT_FAILED, "%d heads cannot share %d key heads evenly", g.heads, g.kv_heads);
  }
  if (check.ok() && g.sequence > 0 &&
      g.batch > std::numeric_limits<std::int32_t>::max() / g.sequence) {
    check.Refuse(FT_FAILED, "batch %lld of sequence %lld has over 2^31 rows",
                 static_cast<long long>(g.batch), static_cast<long long>(g.sequence));
  }
  check.AtLeast("row_stride", g.row_stride, std::int64_t{g.heads} * g.head_dim);
  if (check.ok()) {
    const std::int64_t rows = g.batch * g.sequence;
    check.Tensor("q", g.q, rows, g.row_stride)
        .Tensor("k", g.k, rows, g.row_stride)
        .Tensor("v", g.v, rows, g.row_stride);
    check.Tensor("out", g.out, rows, g.head_dim).Tensor("lse", g.lse, rows, g.heads);
  }
}

FtStatus AttentionForward(FtQueue* queue, const FtAttentionForward* g) {
  Check check(queue, "attention_forward", g->dtype);
  CheckAttention(check, *g);
  if (check.ok()) {
    queue->kernels->attention_forward(*g, queue->scratch.get());
  }
  return check.status();
}

FtStatus AttentionBackward(FtQueue* queue, const FtAttentionBackward* g) {
  Check check(queue, "attention_backward", g->dtype);
  CheckAttention(check, *g);
  if (check.ok()) {
    const std::int64_t rows = g->batch * g->sequence;
    check.Tensor("dout", g->dout, rows)
        .Tensor("dq", g->dq, rows)
        .Tensor("dk", g->dk, rows)
        .Tensor("dv", g->dv, rows);
  }
  if (check.ok()) {
    queue->kernels->attention_backward(*g, queue->scratch.get());
  }
  return check.status();
}

FtStatus GeluForward(FtQueue* queue, const FtGelu* g) {
  Check check(queue, "gelu_forward", g->dtype);
  check.Size("elements", g->elements)
      .Tensor("x", g->x, g->elements)
      .Tensor("out", g->out, g->elements);
  if (check.ok()) {
    queue->kernels->gelu_forward(*g);
  }
  return check.status();
}

FtStatus GeluBackward(FtQueue* queue, const FtGelu* g) {
  Check check(queue, "gelu_backward", g->dtype);
  check.Size("elements", g->elements)
      .Tensor("x", g->x, g->elements)
      .Tensor("dy", g->dy, g->elements);
  check.Tensor("out", g->out, g->elements);
  if (check.ok()) {
    queue->kernels->gelu_backward(*g);
  }
  return check.status();
}

FtStatus SwigluForward(FtQueue* queue, const FtSwiglu* g) {
  Check check(queue, "swiglu_forward", g->dtype);
  check.Size("rows", g->rows).Size("cols", g->cols);
  check.Tensor("x", g->x, g->rows, g->cols).Tensor("out", g->out, g->rows, g->cols);
  if (check.ok()) {
    queue->kernels->swiglu_forward(*g);
  }
  return check.status();
}

FtStatus SwigluBackward(FtQueue* queue, const FtSwiglu* g) {
  Check check(queue, "swiglu_backward", g->dtype);
  check.Size("rows", g->rows).Size("cols", g->cols);
  check.Tensor("x", g->x, g->rows, g->cols)
      .Tensor("dy", g->dy, g->rows, g->cols)
      .Tensor("out", g->out, g->rows, g->cols);
  if (check.ok()) {
    queue->kernels->swiglu_backward(*g);
  }
  return check.status();
}

FtStatus Add(FtQueue* queue, const FtAdd* g) {
  Check check(queue, "add", g->dtype);
  check.Size("rows", g->rows).Size("cols", g->cols);
  check.Tensor("a", g->a, g->rows, g->cols)
      .Tensor("b", g->b, g->rows, g->cols)
      .Tensor("out", g->out, g->rows, g->cols);
  if (check.ok()) {
    queue->kernels->add(*g);
  }
  return check.status();
}

FtStatus CrossEntropyForward(FtQueue* queue, const FtCrossEntropyForward* g) {
  Check check(queue, "cross_entropy_forward", g->dtype);
  check.Size("rows", g->rows)
      .AtLeast("vocab", g->vocab, 1)
      .Tensor("logits", g->logits, g->rows, g->vocab);
  check.Tensor("targets", g->targets, g->rows)
      .Tensor("lse", g->lse, g->rows)
      .Tensor("loss", g->loss, 1);
  if (check.ok()) {
    queue->kernels->cross_entropy_forward(*g);
  }
  return check.status();
}

FtStatus CrossEntropyBackward(FtQueue* queue, const FtCrossEntropyBackward* g) {
  Check check(queue, "cross_entropy_backward", g->dtype);
  check.Size("rows", g->rows)
      .AtLeast("vocab", g->vocab, 1)
      .Tensor("logits", g->logits, g->rows, g->vocab);
  check.Tensor("targets", g->targets, g->rows).Tensor("lse", g->lse, g->rows);
  if (check.ok()) {
    queue->kernels->cross_entropy_backward(*g);
  }
  return check.status();
}

FtStatus SquaredNorm(FtQueue* queue, const FtSquaredNorm* g) {
  Check check(queue, "squared_norm", g->dtype);
  check.Size("elements", g->elements).Tensor("x", g->x, g->elements).Tensor("out", g->out, 1);
  if (check.ok()) {
    queue->kernels->squared_norm(*g);
  }
  return check.status();
}

FtStatus AdamW(FtQueue* queue, const FtAdamW* g) {
  Check check(queue, "adamw", g->dtype);
  check.Size("elements", g->elements).Size("decayed", g->decayed).AtLeast("step", g->step, 1);
  check.Tensor("param", g->param, g->elements).Tensor("grad", g->grad, g->elements);
  check.Tensor("moment1", g->moment1, g->elements).Tensor("moment2", g->moment2, g->elements);
  if (check.ok()) {
    queue->kernels->adamw(*g);
  }
  return check.status();
}

FtStatus SumRanks(FtQueue* queue, const FtSumRanks* g) {
  Check check(queue, "sum_ranks", g->dtype);
  check.Size("elements", g->elements)
      .AtLeast("count", g->count, 1)
      .Tensor("out", g->out, g->elements);
  check.Tensor("sources", g->sources, g->elements);
  for (std::int32_t rank = 0; check.ok() && g->elements > 0 && rank < g->count; ++rank) {
    check.Tensor("a source", g->sources[rank], g->elements);
  }
  if (check.ok() && g->elements > 0) {
    queue->kernels->sum_ranks(*g);
  }
  return check.status();
}

}  // namespace

void SetCpuKernels(FtDeviceApi& api) {
  api.supports = &Supports;
  api.gemm = &Gemm;
  api.bias_grad = &BiasGrad;
  api.embedding_forward = &EmbeddingForward;
  api.embedding_backward = &EmbeddingBackward;
  api.norm_forward = &NormForward;
  api.norm_backward_input = &NormBackwardInput;
  api.norm_backward_weight = &NormBackwardWeight;
  api.rope = &Rope;
  api.attention_forward = &AttentionForward;
  api.attention_backward = &AttentionBackward;
  api.gelu_forward = &GeluForward;
  api.gelu_backward = &GeluBackward;
  api.swiglu_forward = &SwigluForward;
  api.swiglu_backward = &SwigluBackward;
  api.add = &Add;
  api.cross_entropy_forward = &CrossEntropyForward;
  api.cross_entropy_backward = &CrossEntropyBackward;
  api.squared_norm = &SquaredNorm;
  api.adamw = &AdamW;
  api.sum_ranks = &SumRanks;
}

}  // namespace foretrain
