// Mixture of experts: moves rows to and from the experts, and runs their products, one GEMM per run
// of rows.
#include <algorithm>
#include <cstdint>

#include "kernels/cpu/entries/check.h"
#include "kernels/cpu/entries/families.h"

namespace foretrain {
namespace {

// Refuses an index other than -1 or a value in [0, end).
void CheckIndices(Check& check, const char* name, const std::int32_t* indices, std::int64_t count,
                  std::int64_t end) {
  for (std::int64_t i = 0; check.ok() && i < count; ++i) {
    if (indices[i] < -1 || indices[i] >= end) {
      check.Refuse(FT_FAILED, "%s[%lld] is %d: must be from -1 to %lld", name,
                   static_cast<long long>(i), static_cast<int>(indices[i]),
                   static_cast<long long>(end - 1));
    }
  }
}

template <class Arguments>
void CheckSizes(Check& check, const Arguments& g) {
  check.Size("tokens", g.tokens).Size("expert_rows", g.expert_rows).Size("cols", g.cols);
  check.AtLeast("per_token", g.per_token, 1);
}

// Indices are data from a router, so each is checked before it addresses a row.
FtStatus ExpertGather(FtQueue* queue, const FtExpertGather* g) {
  Check check(queue, "expert_gather", g->dtype);
  CheckSizes(check, *g);
  check.Tensor("x", g->x, g->tokens, g->cols)
      .Tensor("sources", g->sources, g->expert_rows)
      .Tensor("out", g->out, g->expert_rows, g->cols);
  if (check.ok()) {
    CheckIndices(check, "sources", g->sources, g->expert_rows, g->tokens * g->per_token);
  }
  if (check.ok()) {
    queue->kernels->expert_gather(*g);
  }
  return check.status();
}

// Sums each token's expert rows in the order of its choices, so that the result is deterministic.
FtStatus ExpertCombine(FtQueue* queue, const FtExpertCombine* g) {
  Check check(queue, "expert_combine", g->dtype);
  CheckSizes(check, *g);
  check.Tensor("x", g->x, g->expert_rows, g->cols)
      .Tensor("places", g->places, g->tokens, g->per_token)
      .Tensor("out", g->out, g->tokens, g->cols);
  if (check.ok()) {
    CheckIndices(check, "places", g->places, g->tokens * g->per_token, g->expert_rows);
  }
  if (check.ok()) {
    queue->kernels->expert_combine(*g);
  }
  return check.status();
}

// Dot products of each token's gradient with its experts' outputs: the gradients of the combine
// weights.
FtStatus ExpertDots(FtQueue* queue, const FtExpertDots* g) {
  Check check(queue, "expert_dots", g->dtype);
  CheckSizes(check, *g);
  check.Tensor("dy", g->dy, g->tokens, g->cols)
      .Tensor("x", g->x, g->expert_rows, g->cols)
      .Tensor("places", g->places, g->tokens, g->per_token)
      .Tensor("out", g->out, g->tokens, g->per_token);
  if (check.ok()) {
    CheckIndices(check, "places", g->places, g->tokens * g->per_token, g->expert_rows);
  }
  if (check.ok()) {
    queue->kernels->expert_dots(*g);
  }
  return check.status();
}

// Arguments of the product for rows [first, first + count), which belong to `expert`. `adds`: a
// weight gradient adds to that of an earlier run of the same expert.
FtGemm RunOf(const FtGroupedGemm& g, std::int64_t expert, std::int64_t first, std::int64_t count,
             bool adds) {
  const auto* a = static_cast<const float*>(g.a);
  const auto* b = static_cast<const float*>(g.b);
  auto* c = static_cast<float*>(g.c);
  const std::int64_t weight = expert * g.out * g.in;
  FtGemm gemm{};
  gemm.dtype = FT_F32;
  gemm.compute = g.compute;
  switch (g.mode) {
    case FT_GROUPED_FORWARD:
      gemm.a = a + first * g.in, gemm.b = b + weight, gemm.c = c + first * g.out;
      gemm.m = count, gemm.n = g.out, gemm.k = g.in;
      gemm.lda = g.in, gemm.ldb = g.in, gemm.ldc = g.out, gemm.trans_b = 1;
      break;
    case FT_GROUPED_INPUT:
      gemm.a = a + first * g.out, gemm.b = b + weight, gemm.c = c + first * g.in;
      gemm.m = count, gemm.n = g.in, gemm.k = g.out;
      gemm.lda = g.out, gemm.ldb = g.in, gemm.ldc = g.in;
      break;
    case FT_GROUPED_WEIGHT:
      gemm.a = a + first * g.out, gemm.b = b + first * g.in, gemm.c = c + weight;
      gemm.m = g.out, gemm.n = g.in, gemm.k = count;
      gemm.lda = g.out, gemm.ldb = g.in, gemm.ldc = g.in, gemm.trans_a = 1;
      break;
  }
  gemm.accumulate = (g.mode == FT_GROUPED_WEIGHT && adds) || g.accumulate != 0 ? 1 : 0;
  return gemm;
}

// Rows of run `run`: an equal share, or its entry in counts.
template <class Arguments>
std::int64_t RowsOfRun(const Arguments& g, std::int64_t run) {
  if (g.counts == nullptr) return g.rows / g.groups;
  if (g.count_stride == 0) return g.counts[run];
  return g.counts[run / g.experts * g.count_stride + run % g.experts];
}

// Refuses negative counts. The sum must equal `rows`, or with a stride at most `rows`.
template <class Arguments>
void CheckCounts(Check& check, const Arguments& g) {
  std::int64_t sum = 0;
  for (std::int64_t run = 0; check.ok() && run < g.groups; ++run) {
    if (RowsOfRun(g, run) < 0) {
      check.Refuse(FT_FAILED, "counts of run %lld are negative", static_cast<long long>(run));
    }
    sum += RowsOfRun(g, run);
  }
  if (check.ok() && (g.count_stride > 0 ? sum > g.rows : sum != g.rows)) {
    check.Refuse(FT_FAILED, "counts add up to %lld of %lld rows", static_cast<long long>(sum),
                 static_cast<long long>(g.rows));
  }
}

// Checks the runs of experts' rows.
template <class Arguments>
void CheckRuns(Check& check, const Arguments& g) {
  check.Size("rows", g.rows);
  check.AtLeast("experts", g.experts, 1).AtLeast("groups", g.groups, g.experts);
  check.Size("count_stride", g.count_stride);
  if (check.ok() && g.groups % g.experts != 0) {
    check.Refuse(FT_FAILED, "groups %lld: must be a multiple of experts %lld",
                 static_cast<long long>(g.groups), static_cast<long long>(g.experts));
  }
  if (check.ok() && g.counts == nullptr && g.rows % g.groups != 0) {
    check.Refuse(FT_FAILED, "groups %lld: do not fit experts %lld and rows %lld",
                 static_cast<long long>(g.groups), static_cast<long long>(g.experts),
                 static_cast<long long>(g.rows));
  }
}

// Calls use(expert, first row, number of rows) for each run.
template <class Arguments, class Use>
void ForEachRun(const Arguments& g, const Use& use) {
  for (std::int64_t run = 0, first = 0; run < g.groups; ++run) {
    const std::int64_t count = RowsOfRun(g, run);
    use(run % g.experts, first, count);
    first += count;
  }
}

// Adds scale * bias of its expert to each row. Rows after the last run stay as they are.
FtStatus ExpertBias(FtQueue* queue, const FtExpertBias* g) {
  Check check(queue, "expert_bias", g->dtype);
  CheckRuns(check, *g);
  check.Size("cols", g->cols).Tensor("x", g->x, g->rows, g->cols);
  check.Tensor("bias", g->bias, g->experts, g->cols);
  if (g->counts != nullptr) CheckCounts(check, *g);
  if (!check.ok()) {
    return check.status();
  }
  ForEachRun(*g, [&](std::int64_t expert, std::int64_t first, std::int64_t count) {
    const auto* const bias = static_cast<const float*>(g->bias) + expert * g->cols;
    for (std::int64_t row = first; row < first + count; ++row) {
      float* const x = static_cast<float*>(g->x) + row * g->cols;
      for (std::int64_t c = 0; c < g->cols; ++c) x[c] += g->scale * bias[c];
    }
  });
  return FT_OK;
}

// Sums in the order of runs and rows, so that results are repeatable.
FtStatus ExpertBiasGrad(FtQueue* queue, const FtExpertBiasGrad* g) {
  Check check(queue, "expert_bias_grad", g->dtype);
  CheckRuns(check, *g);
  check.Size("cols", g->cols).Tensor("dy", g->dy, g->rows, g->cols);
  check.Tensor("bias_grad", g->bias_grad, g->experts, g->cols);
  if (g->counts != nullptr) CheckCounts(check, *g);
  if (!check.ok()) {
    return check.status();
  }
  auto* const grads = static_cast<float*>(g->bias_grad);
  if (g->accumulate == 0) std::fill_n(grads, g->experts * g->cols, 0.0F);
  ForEachRun(*g, [&](std::int64_t expert, std::int64_t first, std::int64_t count) {
    float* const grad = grads + expert * g->cols;
    for (std::int64_t row = first; row < first + count; ++row) {
      const auto* const dy = static_cast<const float*>(g->dy) + row * g->cols;
      for (std::int64_t c = 0; c < g->cols; ++c) grad[c] += dy[c];
    }
  });
  return FT_OK;
}

// An expert with several runs gets several GEMMs; its weight gradient accumulates in the order of
// the runs. No run is padded.
FtStatus GroupedGemm(FtQueue* queue, const FtGroupedGemm* g) {
  Check check(queue, "grouped_gemm", g->dtype);
  CheckRuns(check, *g);
  check.Size("out", g->out).Size("in", g->in);
  const bool weight = g->mode == FT_GROUPED_WEIGHT;
  const std::int64_t of_a = g->mode == FT_GROUPED_FORWARD ? g->in : g->out;
  check.Tensor("a", g->a, g->rows, of_a);
  if (weight) {
    check.Tensor("b", g->b, g->rows, g->in).Tensor("c", g->c, g->experts * g->out, g->in);
  } else {
    check.Tensor("b", g->b, g->experts * g->out, g->in)
        .Tensor("c", g->c, g->rows, g->mode == FT_GROUPED_FORWARD ? g->out : g->in);
  }
  if (g->counts != nullptr) CheckCounts(check, *g);
  if (!check.ok()) {
    return check.status();
  }
  for (std::int64_t run = 0, first = 0; run < g->groups; ++run) {
    const std::int64_t count = RowsOfRun(*g, run);
    const FtGemm gemm = RunOf(*g, run % g->experts, first, count, run >= g->experts);
    if (const FtStatus status = RunGemm(queue, &gemm); status != FT_OK) return status;
    first += count;
  }
  return FT_OK;
}

}  // namespace

void SetMoeEntries(FtDeviceApi& api) {
  api.expert_gather = &ExpertGather;
  api.expert_combine = &ExpertCombine;
  api.expert_dots = &ExpertDots;
  api.grouped_gemm = &GroupedGemm;
  api.expert_bias = &ExpertBias;
  api.expert_bias_grad = &ExpertBiasGrad;
}

}  // namespace foretrain
