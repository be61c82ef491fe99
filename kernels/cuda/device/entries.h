// The CUDA kernel entries by family, one file each. Entries check their arguments, then launch.
#pragma once

#include "base/device_api.h"

namespace foretrain {

void SetCudaNormEntries(FtDeviceApi& api);         // norm_*, add_norm_forward, bias_grad
void SetCudaElementwiseEntries(FtDeviceApi& api);  // gelu, swiglu, add, softcap, copy_rows
void SetCudaDropoutEntries(FtDeviceApi& api);      // dropout, dropout_backward
void SetCudaEmbeddingEntries(FtDeviceApi& api);    // embedding_forward, _backward
void SetCudaHeadEntries(FtDeviceApi& api);         // rope, head_norm_*, latent_heads, sink_*
void SetCudaLossEntries(FtDeviceApi& api);         // cross_entropy_*, vocab_*, shift_targets
void SetCudaSumEntries(FtDeviceApi& api);          // squared_norm, count_not_finite
// Entries adamw, sgd, their amendments, momentum, lion, average, combine, count_skipped,
// scale_loss.
void SetCudaUpdateEntries(FtDeviceApi& api);
void SetCudaAdafactorEntries(FtDeviceApi& api);  // factor_sums, _moments, _size, adafactor
void SetCudaExchangeEntries(FtDeviceApi& api);   // quantize, dequantize, sum_ranks
void SetCudaRouterEntries(FtDeviceApi& api);     // route, route_backward
void SetCudaExpertEntries(FtDeviceApi& api);     // expert_gather, _combine, _dots
void SetCudaGateEntries(FtDeviceApi& api);       // gate_*, count_choices, balance_bias
void SetCudaGemmEntries(FtDeviceApi& api);       // gemm, grouped_gemm, expert_bias, _bias_grad
void SetCudaAttentionForwardEntries(FtDeviceApi& api);   // attention_forward, _part_forward
void SetCudaAttentionBackwardEntries(FtDeviceApi& api);  // attention_backward, _part_backward
void SetCudaStandardAttentionEntries(FtDeviceApi& api);  // standard_attention_forward, _backward
void SetCudaQuantizeTensorEntry(FtDeviceApi& api);

// Entry that other entries call too.
FtStatus CudaBiasGrad(FtQueue* queue, const FtBiasGrad* g);

// The table without its capture entries, which are NULL.
FtDeviceApi MakeCudaTable();

// Sets all kernel entries and `supports`. An entry without a kernel returns FT_UNSUPPORTED and says
// so.
void SetCudaKernels(FtDeviceApi& api);

}  // namespace foretrain
