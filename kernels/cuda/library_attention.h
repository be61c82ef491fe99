// Attention over whole sequences by cuDNN, for the calls that a queue was told to compute so:
// plans, and pieces of a call that find room in the queue's workspace. Leaves out the graphs of
// operations (cudnn_attention.h); all other calls are those of tensor_attention.cuh.
#pragma once

#include <cstddef>

#include "base/device_api.h"

namespace foretrain {

struct AttentionLibrary;

// Loads the library from `file` for queues of one device. FT_UNSUPPORTED with a sentence: there is
// none that can be used.
FtStatus MakeAttentionLibrary(const char* file, AttentionLibrary** out, char* why, std::size_t n);
void DestroyAttentionLibrary(AttentionLibrary* library);

// The table's attention_library, attention_forward_use and attention_backward_use. Without a
// library of its own a queue loads that of kCudnnFile.
FtStatus NameAttentionLibrary(char* name, std::size_t n, char* why, std::size_t why_n);
FtStatus UseAttentionForward(FtQueue* queue, const FtAttentionForward* g,
                             FtAttentionKernels kernels);
FtStatus UseAttentionBackward(FtQueue* queue, const FtAttentionBackward* g,
                              FtAttentionKernels kernels);

// Whether the library computes `g`, whose arguments have been checked: *status then says how that
// went. False: own kernels do, because the queue was not told otherwise, or a tensor does not lie
// on 16 bytes.
bool LibraryAttentionForward(FtQueue* queue, const FtAttentionForward& g, FtStatus* status);
bool LibraryAttentionBackward(FtQueue* queue, const FtAttentionBackward& g, FtStatus* status);

}  // namespace foretrain
