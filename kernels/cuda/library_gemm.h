// GEMM by cuBLASLt: handle, descriptors and the algorithms chosen for shapes seen before. Leaves
// out shapes that the library refuses, which the kernel of gemm.cu takes.
#pragma once

#include <cstddef>

#include "base/device_api.h"

namespace foretrain {

struct GemmLibrary;

FtStatus MakeGemmLibrary(GemmLibrary** out, char* why, std::size_t n);
void DestroyGemmLibrary(GemmLibrary* library);

// Enqueues `g`, whose arguments have been checked and whose sizes are above 0. FT_UNSUPPORTED where
// the library has no algorithm for it: nothing was enqueued.
FtStatus LibraryGemm(FtQueue* queue, const FtGemm& g);

}  // namespace foretrain
