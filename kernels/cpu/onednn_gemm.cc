#include "kernels/cpu/onednn_gemm.h"

#if FORETRAIN_HAVE_ONEDNN

#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>

namespace foretrain {
namespace {

// OpenMP functions of the runtime that oneDNN itself was loaded with, looked up by name, so that
// this build need not link OpenMP. They are null if oneDNN was built without OpenMP; it then runs
// in the calling thread anyway.
struct OpenMp {
  int (*get_max_threads)() = nullptr;
  void (*set_num_threads)(int) = nullptr;
};

OpenMp FindOpenMp() {
  OpenMp found;
  found.get_max_threads = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
  found.set_num_threads =
      reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  return found;
}

// While alive, limits parallel regions of the calling thread to one OpenMP thread. The setting is
// per thread: other threads keep theirs.
class OneOpenMpThread {
 public:
  OneOpenMpThread() {
    if (Functions().set_num_threads != nullptr && Functions().get_max_threads != nullptr) {
      before_ = Functions().get_max_threads();
      Functions().set_num_threads(1);
    }
  }
  ~OneOpenMpThread() {
    if (before_ > 1) {
      Functions().set_num_threads(before_);
    }
  }
  OneOpenMpThread(const OneOpenMpThread&) = delete;
  OneOpenMpThread& operator=(const OneOpenMpThread&) = delete;

 private:
  static const OpenMp& Functions() {
    static const OpenMp functions = FindOpenMp();
    return functions;
  }
  int before_ = 0;
};

// Writes the bias into c: dnnl_sgemm has no bias, so the product is then added to it.
void PrepareOutput(const FtGemm& g) {
  const auto* bias = static_cast<const float*>(g.bias);
  for (int64_t i = 0; i < g.m; ++i) {
    float* row = static_cast<float*>(g.c) + i * g.ldc;
    if (g.accumulate == 0) {
      std::memcpy(row, bias, static_cast<std::size_t>(g.n) * sizeof(float));
    } else {
      for (int64_t j = 0; j < g.n; ++j) {
        row[j] += bias[j];
      }
    }
  }
}

}  // namespace

// Row-major contract of dnnl_sgemm, with beta = 1 if c already holds the bias or the sum to add to.
const char* OneDnnGemm(const FtGemm& g) {
  if (g.bias != nullptr) {
    PrepareOutput(g);
  }
  const float beta = g.accumulate != 0 || g.bias != nullptr ? 1.0F : 0.0F;
  const OneOpenMpThread one_thread;
  const dnnl_status_t status =
      dnnl_sgemm(g.trans_a != 0 ? 'T' : 'N', g.trans_b != 0 ? 'T' : 'N', g.m, g.n, g.k,
                 g.scale != 0.0F ? g.scale : 1.0F, static_cast<const float*>(g.a), g.lda,
                 static_cast<const float*>(g.b), g.ldb, beta, static_cast<float*>(g.c), g.ldc);
  switch (status) {
    case dnnl_success:
      return nullptr;
    case dnnl_out_of_memory:
      return "out of memory";
    case dnnl_invalid_arguments:
      return "invalid arguments";
    case dnnl_unimplemented:
      return "unimplemented";
    default:
      return "runtime error";
  }
}

}  // namespace foretrain

#else

namespace foretrain {

const char* OneDnnGemm(const FtGemm& /*g*/) { return "this build has no oneDNN"; }

}  // namespace foretrain

#endif
