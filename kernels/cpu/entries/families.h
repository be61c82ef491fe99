// The kernel entries by family, one file each. Entries check their arguments, then run the kernel.
#pragma once

#include "base/device_api.h"

namespace foretrain {

void SetLinearEntries(FtDeviceApi& api);         // gemm, bias_grad
void SetEmbeddingEntries(FtDeviceApi& api);      // embedding_forward, _backward
void SetNormEntries(FtDeviceApi& api);           // norm_forward, _backward_input, _backward_weight
void SetAttentionEntries(FtDeviceApi& api);      // rope, attention_forward, _backward
void SetAttentionPartEntries(FtDeviceApi& api);  // attention_part_forward, _backward, copy_rows
void SetStandardAttentionEntries(FtDeviceApi& api);  // standard_attention_forward, _backward
void SetDropoutEntries(FtDeviceApi& api);            // dropout, dropout_backward
void SetHeadNormEntries(FtDeviceApi& api);           // head_norm_forward, _backward_*
void SetLatentEntries(FtDeviceApi& api);             // latent_heads, sink_forward, sink_backward
void SetActivationEntries(FtDeviceApi& api);         // gelu, swiglu, add, softcap
void SetCrossEntropyEntries(FtDeviceApi& api);       // cross_entropy_*, vocab_*, shift_targets
void SetRouterEntries(FtDeviceApi& api);             // route, route_backward
void SetMoeEntries(FtDeviceApi& api);                // expert_*, grouped_gemm
void SetGateEntries(FtDeviceApi& api);               // gate_*, count_choices, balance_bias
// squared_norm, adamw, sgd, count_*, scale_loss, (de)quantize, sum_ranks.
void SetUpdateEntries(FtDeviceApi& api);
void SetQuantizeTensorEntry(FtDeviceApi& api);

// Wraps entries of `api` so that they also accept FT_BF16, FT_F16 and 8-bit codes. Call it after
// all others.
void SetShortTensorEntries(FtDeviceApi& api);

// The gemm entry, for entries that consist of several GEMMs.
FtStatus RunGemm(FtQueue* queue, const FtGemm* g);

}  // namespace foretrain
