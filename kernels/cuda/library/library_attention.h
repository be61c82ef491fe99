// Attention over whole sequences by cuDNN, for calls that a queue was told to compute so. Keeps
// plans, and cuts a call into pieces that fit the queue's workspace. cudnn_attention.h has the
// graphs; tensor_attention.cuh computes all other calls.
#pragma once

#include <cstddef>

#include "base/device_api.h"

namespace foretrain {

struct AttentionLibrary;

// Loads the library from `file` for queues of one device. FT_UNSUPPORTED with a sentence if no
// usable library is found.
FtStatus MakeAttentionLibrary(const char* file, AttentionLibrary** out, char* why, std::size_t n);
void DestroyAttentionLibrary(AttentionLibrary* library);

// The table's attention_library, attention_forward_use and attention_backward_use. A queue without
// a library loads kCudnnFile.
FtStatus NameAttentionLibrary(char* name, std::size_t n, char* why, std::size_t why_n);
FtStatus UseAttentionForward(FtQueue* queue, const FtAttentionForward* g,
                             FtAttentionKernels kernels);
FtStatus UseAttentionBackward(FtQueue* queue, const FtAttentionBackward* g,
                              FtAttentionKernels kernels);

// True if the library computes `g`, whose arguments have been checked; *status is then the result.
// False if the queue's own kernels must compute it: the queue was not told otherwise, or a tensor
// is not 16-byte aligned.
bool LibraryAttentionForward(FtQueue* queue, const FtAttentionForward& g, FtStatus* status);
bool LibraryAttentionBackward(FtQueue* queue, const FtAttentionBackward& g, FtStatus* status);

}  // namespace foretrain
