// GEMM by cuBLASLt: handle, descriptors and the algorithms chosen for shapes seen before. Leaves
// out shapes that the library refuses, which the kernels of gemm.cu and
// tensor_gemm.cu take, and what it lacks beside a product (library_products.cu).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/device_api.h"

namespace foretrain {

struct GemmLibrary;

FtStatus MakeGemmLibrary(GemmLibrary** out, char* why, std::size_t n);
void DestroyGemmLibrary(GemmLibrary* library);

// Memory of the device that a product may use meanwhile.
struct GemmWorkspace {
  std::byte* at = nullptr;
  std::int64_t bytes = 0;
};

// Whether the library, as it was built with and as it is loaded, has scales of blocks: from CUDA
// 12.9 on.
bool LibraryHasBlockScales();

// Enqueues `g`, whose arguments have been checked and whose sizes are above 0; scales of blocks lie
// as LibraryScales leaves them, FT_SCALE_ROWS or FT_SCALE_TILES. FT_UNSUPPORTED where
// the library has no algorithm for it, with all that it asks for: nothing was enqueued.
FtStatus LibraryGemm(FtQueue* queue, const FtGemm& g, const GemmWorkspace& workspace);

// The table's gemm_library, gemm_algorithms and gemm_use; of products that have all of a queue's
// workspace.
FtStatus NameGemmLibrary(char* name, std::size_t n);
FtStatus FindGemmAlgorithms(FtQueue* queue, const FtGemm* g, FtGemmAlgorithm* out,
                            std::int32_t capacity, std::int32_t* count);
FtStatus UseGemmAlgorithm(FtQueue* queue, const FtGemm* g, const FtGemmAlgorithm* algorithm);

}  // namespace foretrain
