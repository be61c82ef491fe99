// CPU entries of GEMM, with its epilogues, and of the bias gradient.
#include <cstdint>

#include "kernels/cpu/entries/check.h"
#include "kernels/cpu/entries/families.h"
#include "kernels/cpu/onednn_gemm.h"

namespace foretrain {

namespace {

// Checks compute format, epilogue and row sums. Row sums come from bias_grad, which needs a dense
// a.
void CheckParts(Check& check, const FtGemm& g) {
  if (g.compute != FT_F32 && g.compute != FT_TF32) {
    check.Refuse(FT_UNSUPPORTED, "compute %d: only f32 (0) and tf32 (10)",
                 static_cast<int>(g.compute));
  }
  if (g.a_scale != nullptr || g.b_scale != nullptr) {
    check.Refuse(FT_FAILED, "a_scale, b_scale: only codes of 8 bits (dtype 5 and 9) have scales");
  }
  if (g.epilogue < FT_EPILOGUE_NONE || g.epilogue > FT_EPILOGUE_SLOPE) {
    check.Refuse(FT_UNSUPPORTED, "epilogue %d", static_cast<int>(g.epilogue));
  }
  if (g.epilogue != FT_EPILOGUE_NONE) {
    if (g.accumulate != 0) check.Refuse(FT_FAILED, "epilogue: adds to nothing");
    if (g.activation < FT_GELU_TANH || g.activation > FT_SQUARED_RELU) {
      check.Refuse(FT_UNSUPPORTED, "activation %d", static_cast<int>(g.activation));
    }
    if (g.epilogue == FT_EPILOGUE_SLOPE || g.aux != nullptr) {
      check.AtLeast("ld_aux", g.ld_aux, g.n).Tensor("aux", g.aux, g.m, g.n);
    }
  }
  if (g.row_sums == nullptr) return;
  if (g.trans_a == 0 || g.lda != g.m || g.bias != nullptr || g.epilogue != FT_EPILOGUE_NONE) {
    check.Refuse(FT_FAILED, "row_sums: of a dense transposed a alone, without bias and epilogue");
  }
}

// c (+)= scale * op(a) op(b) + bias. Returns NULL, or the error text.
const char* Multiply(FtQueue* queue, const FtGemm& g) {
  // oneDNN's sgemm has no TF32 mode.
  if (queue->gemm == GemmBackend::kOneDnn && g.k > 0 && g.compute == FT_F32) return OneDnnGemm(g);
  queue->kernels->gemm(g, queue->scratch.get());
  return nullptr;
}

// Applies the epilogue after the product, row by row, or in one call if both tensors are dense.
void Finish(FtQueue* queue, const FtGemm& g) {
  auto* const of_aux = static_cast<float*>(g.aux != nullptr ? g.aux : g.c);
  const std::int64_t ld_aux = g.aux != nullptr ? g.ld_aux : g.ldc;
  const bool dense = g.ldc == g.n && ld_aux == g.n;
  const std::int64_t calls = dense ? 1 : g.m;
  for (std::int64_t row = 0; row < calls; ++row) {
    float* const aux = of_aux + row * ld_aux;
    float* const c = static_cast<float*>(g.c) + row * g.ldc;
    const std::int64_t elements = dense ? g.m * g.n : g.n;
    if (g.epilogue == FT_EPILOGUE_ACTIVATE) {
      queue->kernels->gelu_forward({aux, nullptr, c, elements, FT_F32, g.activation});
    } else {
      queue->kernels->gelu_backward({aux, c, c, elements, FT_F32, g.activation});
    }
  }
}

}  // namespace

// With an ACTIVATE epilogue the product goes to aux first, because c = f(aux) and both are kept.
// Row sums are computed even if n is 0: they depend on a alone.
FtStatus RunGemm(FtQueue* queue, const FtGemm* g) {
  Check check(queue, "gemm", g->dtype);
  check.Size("m", g->m).Size("n", g->n).Size("k", g->k);
  check.AtLeast("lda", g->lda, g->trans_a != 0 ? g->m : g->k);
  check.AtLeast("ldb", g->ldb, g->trans_b != 0 ? g->k : g->n).AtLeast("ldc", g->ldc, g->n);
  CheckParts(check, *g);
  if (!check.ok() || g->m == 0) {
    return check.status();
  }
  if (g->row_sums != nullptr) {
    check.Tensor("a", g->a, g->m, g->k);
    if (!check.ok()) return check.status();
    queue->kernels->bias_grad({g->a, g->row_sums, g->k, g->m, g->accumulate, FT_F32, FT_F32});
  }
  if (g->n == 0) return FT_OK;
  check.Tensor("a", g->a, g->m, g->k).Tensor("b", g->b, g->k, g->n).Tensor("c", g->c, g->m, g->n);
  if (!check.ok()) {
    return check.status();
  }
  FtGemm product = *g;
  if (g->epilogue == FT_EPILOGUE_ACTIVATE && g->aux != nullptr) {
    product.c = g->aux, product.ldc = g->ld_aux;
  }
  if (const char* error = Multiply(queue, product); error != nullptr) {
    check.Refuse(FT_FAILED, "oneDNN: %s (m %lld, n %lld, k %lld)", error,
                 static_cast<long long>(g->m), static_cast<long long>(g->n),
                 static_cast<long long>(g->k));
    return check.status();
  }
  if (g->epilogue != FT_EPILOGUE_NONE) Finish(queue, *g);
  return FT_OK;
}

namespace {

// Sums dy over rows: grad[col] (+)= sum of dy[row, col].
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
