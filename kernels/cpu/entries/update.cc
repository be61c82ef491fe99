#include <cstdint>

#include "kernels/cpu/entries/check.h"
#include "kernels/cpu/entries/families.h"

namespace foretrain {
namespace {

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

void SetUpdateEntries(FtDeviceApi& api) {
  api.squared_norm = &SquaredNorm;
  api.adamw = &AdamW;
  api.sum_ranks = &SumRanks;
}

}  // namespace foretrain
