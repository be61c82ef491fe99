// Instantiates the kernels for processors with AVX-512 F, BW, CD, DQ and VL (x86-64-v4).
#if defined(__AVX512F__)

#define FT_VECTOR_NAMESPACE vector_avx512
#define FT_VECTOR_BYTES 64
#include "kernels/cpu/vector/table.h"

namespace foretrain {

const VectorKernels& Avx512VectorKernels() {
  static constexpr VectorKernels kTable = vector_avx512::MakeTable("avx512");
  return kTable;
}

}  // namespace foretrain

#endif
