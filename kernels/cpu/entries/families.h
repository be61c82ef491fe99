// The kernel entries by family, one file each: those that are more than a vector kernel.
#pragma once

#include "base/device_api.h"

namespace foretrain {

void SetLinearEntries(FtDeviceApi& api);             // gemm, bias_grad
void SetEmbeddingEntries(FtDeviceApi& api);          // embedding_forward, _backward
void SetStandardAttentionEntries(FtDeviceApi& api);  // standard_attention_forward, _backward
void SetDropoutEntries(FtDeviceApi& api);            // dropout, dropout_backward
void SetLatentEntries(FtDeviceApi& api);             // latent_heads, sink_forward, sink_backward
void SetRelativeBiasEntries(FtDeviceApi& api);       // relative_bias, relative_bias_backward
void SetCrossEntropyEntries(FtDeviceApi& api);       // cross_entropy*, z_loss*, targets
void SetRouterEntries(FtDeviceApi& api);             // route, route_backward
void SetMoeEntries(FtDeviceApi& api);                // expert_*, grouped_gemm
void SetGateEntries(FtDeviceApi& api);               // gate_*, count_choices, balance_bias
// adamw, sgd, momentum, lion, adafactor with its sums, average, combine, scale_loss, (de)quantize
void SetUpdateEntries(FtDeviceApi& api);
void SetQuantizeTensorEntry(FtDeviceApi& api);
void SetShortTensorEntries(FtDeviceApi& api);  // add_norm_forward, sum_ranks, copy_rows

// The gemm entry, for entries that consist of several GEMMs.
FtStatus RunGemm(FtQueue* queue, const FtGemm* g);

}  // namespace foretrain
