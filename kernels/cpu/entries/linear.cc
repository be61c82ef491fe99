// CPU entries of GEMM, with its epilogues, and of the bias gradient.
#include <cstdint>

#include "kernels/cpu/entries/entry.h"
#include "kernels/cpu/entries/families.h"
#include "kernels/cpu/onednn_gemm.h"

namespace foretrain {
namespace {

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

// With an ACTIVATE epilogue the product goes to aux first, because c = f(aux) and both are kept.
// Row sums are computed even if n is 0: they depend on a alone.
void Gemm(Check& check, const FtGemm& g) {
  FtQueue* const queue = check.queue();
  if (g.m == 0) return;
  if (g.row_sums != nullptr) {
    queue->kernels->bias_grad({g.a, g.row_sums, g.k, g.m, g.accumulate, FT_F32, FT_F32});
  }
  if (g.n == 0) return;
  FtGemm product = g;
  if (g.epilogue == FT_EPILOGUE_ACTIVATE && g.aux != nullptr) {
    product.c = g.aux, product.ldc = g.ld_aux;
  }
  if (const char* error = Multiply(queue, product); error != nullptr) {
    check.Refuse(FT_FAILED, "oneDNN: %s (m %lld, n %lld, k %lld)", error,
                 static_cast<long long>(g.m), static_cast<long long>(g.n),
                 static_cast<long long>(g.k));
    return;
  }
  if (g.epilogue != FT_EPILOGUE_NONE) Finish(queue, g);
}

void BiasGrad(Check& check, const FtBiasGrad& g) {
  if (g.cols > 0) check.queue()->kernels->bias_grad(g);
}

}  // namespace

FtStatus RunGemm(FtQueue* queue, const FtGemm* g) {
  return Run<&FtDeviceApi::gemm, &Gemm>(queue, g);
}

void SetLinearEntries(FtDeviceApi& api) {
  api.gemm = &RunGemm;
  Set<&FtDeviceApi::bias_grad, &BiasGrad>(api);
}

}  // namespace foretrain
