// Instantiates the kernels for processors with AVX2 and FMA (x86-64-v3).
#if defined(__AVX2__)

#define FT_VECTOR_NAMESPACE vector_avx2
#define FT_VECTOR_BYTES 32
#include "kernels/cpu/vector/table.h"

namespace foretrain {

const VectorKernels& Avx2VectorKernels() {
  static constexpr VectorKernels kTable = vector_avx2::MakeTable("avx2");
  return kTable;
}

}  // namespace foretrain

#endif
