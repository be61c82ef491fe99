// Mixture of experts: moves rows to and from the experts, and runs their products, one GEMM per run
// of rows.
#include <algorithm>
#include <cstdint>

#include "kernels/cpu/entries/entry.h"
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

// Indices are data from a router, so each is checked before it addresses a row.
void ExpertGather(Check& check, const FtExpertGather& g) {
  CheckIndices(check, "sources", g.sources, g.expert_rows, g.tokens * g.per_token);
  if (check.ok()) check.queue()->kernels->expert_gather(g);
}

void ExpertCombine(Check& check, const FtExpertCombine& g) {
  CheckIndices(check, "places", g.places, g.tokens * g.per_token, g.expert_rows);
  if (check.ok()) check.queue()->kernels->expert_combine(g);
}

void ExpertDots(Check& check, const FtExpertDots& g) {
  CheckIndices(check, "places", g.places, g.tokens * g.per_token, g.expert_rows);
  if (check.ok()) check.queue()->kernels->expert_dots(g);
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
  if (g.counts == nullptr) return;
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
void ExpertBias(Check& check, const FtExpertBias& g) {
  CheckCounts(check, g);
  if (!check.ok()) return;
  ForEachRun(g, [&](std::int64_t expert, std::int64_t first, std::int64_t count) {
    const auto* const bias = static_cast<const float*>(g.bias) + expert * g.cols;
    for (std::int64_t row = first; row < first + count; ++row) {
      float* const x = static_cast<float*>(g.x) + row * g.cols;
      for (std::int64_t c = 0; c < g.cols; ++c) x[c] += g.scale * bias[c];
    }
  });
}

// Sums in the order of runs and rows, so that results are repeatable.
void ExpertBiasGrad(Check& check, const FtExpertBiasGrad& g) {
  CheckCounts(check, g);
  if (!check.ok()) return;
  auto* const grads = static_cast<float*>(g.bias_grad);
  if (g.accumulate == 0) std::fill_n(grads, g.experts * g.cols, 0.0F);
  ForEachRun(g, [&](std::int64_t expert, std::int64_t first, std::int64_t count) {
    float* const grad = grads + expert * g.cols;
    for (std::int64_t row = first; row < first + count; ++row) {
      const auto* const dy = static_cast<const float*>(g.dy) + row * g.cols;
      for (std::int64_t c = 0; c < g.cols; ++c) grad[c] += dy[c];
    }
  });
}

// An expert with several runs gets several GEMMs; its weight gradient accumulates in the order of
// the runs. No run is padded.
void GroupedGemm(Check& check, const FtGroupedGemm& g) {
  CheckCounts(check, g);
  for (std::int64_t run = 0, first = 0; check.ok() && run < g.groups; ++run) {
    const std::int64_t count = RowsOfRun(g, run);
    const FtGemm gemm = RunOf(g, run % g.experts, first, count, run >= g.experts);
    check.Adopt(RunGemm(check.queue(), &gemm));
    first += count;
  }
}

}  // namespace

void SetMoeEntries(FtDeviceApi& api) {
  Set<&FtDeviceApi::expert_gather, &ExpertGather>(api);
  Set<&FtDeviceApi::expert_combine, &ExpertCombine>(api);
  Set<&FtDeviceApi::expert_dots, &ExpertDots>(api);
  Set<&FtDeviceApi::grouped_gemm, &GroupedGemm>(api);
  Set<&FtDeviceApi::expert_bias, &ExpertBias>(api);
  Set<&FtDeviceApi::expert_bias_grad, &ExpertBiasGrad>(api);
}

}  // namespace foretrain
