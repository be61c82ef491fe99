// GEMM by cuBLASLt: handle, descriptors, and the algorithms chosen for earlier shapes. gemm.cu and
// tensor_gemm.cu take the shapes that it refuses. library_products.cu adds the operations around a
// product that it lacks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/device_api.h"

namespace foretrain {

struct GemmLibrary;

FtStatus MakeGemmLibrary(GemmLibrary** out, char* why, std::size_t n);
void DestroyGemmLibrary(GemmLibrary* library);

// Device memory that a product may use while it runs.
struct GemmWorkspace {
  std::byte* at = nullptr;
  std::int64_t bytes = 0;
};

// True if both the headers and the loaded library support block scales (CUDA 12.9 and later).
bool LibraryHasBlockScales();

// Enqueues `g`, whose arguments have been checked and whose sizes are above 0. Block scales must be
// in LibraryScales' order, FT_SCALE_ROWS or FT_SCALE_TILES. FT_UNSUPPORTED if the library has no
// algorithm for the whole call; nothing is then enqueued.
FtStatus LibraryGemm(FtQueue* queue, const FtGemm& g, const GemmWorkspace& workspace);

// The table's gemm_library, gemm_algorithms and gemm_use, for products that may use the queue's
// whole workspace.
FtStatus NameGemmLibrary(char* name, std::size_t n);
FtStatus FindGemmAlgorithms(FtQueue* queue, const FtGemm* g, FtGemmAlgorithm* out,
                            std::int32_t capacity, std::int32_t* count);
FtStatus UseGemmAlgorithm(FtQueue* queue, const FtGemm* g, const FtGemmAlgorithm* algorithm);

}  // namespace foretrain
