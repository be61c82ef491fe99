// Instantiates the kernels for the build's baseline target, which every processor supports.
#define FT_VECTOR_NAMESPACE vector_baseline
#define FT_VECTOR_BYTES 16
#include "kernels/cpu/vector/table.h"

namespace foretrain {

const VectorKernels& BaselineVectorKernels() {
  static constexpr VectorKernels kTable = vector_baseline::MakeTable("baseline");
  return kTable;
}

}  // namespace foretrain
