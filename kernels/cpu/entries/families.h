// The kernel entries by family, a file each: check the arguments, then run the queue's kernel.
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
void SetUpdateEntries(
    FtDeviceApi& api);  // squared_norm, adamw, sgd, count_*, scale_loss, (de)quantize, sum_ranks
void SetQuantizeTensorEntry(FtDeviceApi& api);

// Puts an entry that also takes tensors of FT_BF16 and FT_F16 in front of each of `api`'s that has
// any; behind all others.
void SetShortTensorEntries(FtDeviceApi& api);

// The entry gemm, for entries that are several GEMMs.
FtStatus RunGemm(FtQueue* queue, const FtGemm* g);

}  // namespace foretrain
