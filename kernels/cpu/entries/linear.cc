#include <cstdint>

#include "kernels/cpu/entries/check.h"
#include "kernels/cpu/entries/families.h"
#include "kernels/cpu/onednn_gemm.h"

namespace foretrain {

FtStatus RunGemm(FtQueue* queue, const FtGemm* g) {
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

namespace {

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

}  // namespace

void SetLinearEntries(FtDeviceApi& api) {
  api.gemm = &RunGemm;
  api.bias_grad = &BiasGrad;
}

}  // namespace foretrain
