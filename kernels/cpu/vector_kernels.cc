#include "kernels/cpu/vector_kernels.h"

namespace foretrain {

// Fastest first; the baseline is always last, so the list is never empty.
UsableVectorKernels FindUsableVectorKernels() {
  UsableVectorKernels usable{};
#if defined(__x86_64__)
  // Tests the features that the compiler may use in vector_avx512.cc (x86-64-v4) and vector_avx2.cc
  // (x86-64-v3). The builtin also checks that the operating system saves the wider registers.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx512) {
    usable.tables[usable.count++] = &Avx512VectorKernels();
  }
  if (avx2) {
    usable.tables[usable.count++] = &Avx2VectorKernels();
  }
#endif
  usable.tables[usable.count++] = &BaselineVectorKernels();
  return usable;
}

}  // namespace foretrain
