// The kernels of one instruction set, as a table. kernels/cpu/vector implements them.
#pragma once

#include "base/device_api.h"

namespace foretrain {

// Functions work in the calling thread and check nothing. `scratch` has kScratchFloats floats
// (scratch.h); one call at a time may use it. Equal arguments give equal bits, for any tensor
// address and any calling thread.
struct VectorKernels {
  const char* name;  // "baseline", "avx2", "avx512"
  void (*gemm)(const FtGemm&, float* scratch);
  void (*bias_grad)(const FtBiasGrad&);
  void (*embedding_forward)(const FtEmbeddingForward&);
  void (*embedding_backward)(const FtEmbeddingBackward&);
  void (*norm_forward)(const FtNormForward&);
  void (*norm_backward_input)(const FtNormBackwardInput&);
  void (*norm_backward_weight)(const FtNormBackwardWeight&);
  void (*rope)(const FtRope&);
  void (*attention_forward)(const FtAttentionForward&, float* scratch);
  void (*attention_backward)(const FtAttentionBackward&, float* scratch);
  void (*gelu_forward)(const FtGelu&);
  void (*gelu_backward)(const FtGelu&);
  void (*swiglu_forward)(const FtSwiglu&);
  void (*swiglu_backward)(const FtSwiglu&);
  void (*add)(const FtAdd&);
  void (*add_norm_forward)(const FtAddNormForward&);
  void (*cross_entropy_forward)(const FtCrossEntropyForward&);
  void (*cross_entropy_backward)(const FtCrossEntropyBackward&);
  void (*vocab_max)(const FtVocabMax&);
  void (*vocab_sums)(const FtVocabSums&);
  void (*vocab_loss)(const FtVocabLoss&);
  void (*expert_gather)(const FtExpertGather&);
  void (*expert_combine)(const FtExpertCombine&);
  void (*expert_dots)(const FtExpertDots&);
  void (*squared_norm)(const FtSquaredNorm&);
  void (*adamw)(const FtAdamW&);
  void (*sgd)(const FtSgd&);
  void (*adamw_amend)(const FtAdamWAmend&);
  void (*sgd_amend)(const FtSgdAmend&);
  void (*count_not_finite)(const FtCountNotFinite&);
  void (*count_skipped)(const FtCountSkipped&);
  void (*quantize)(const FtQuantize&);
  void (*dequantize)(const FtQuantize&);
  void (*sum_ranks)(const FtSumRanks&);
  void (*attention_part_forward)(const FtAttentionPartForward&, float* scratch);
  void (*attention_part_backward)(const FtAttentionPartBackward&, float* scratch);
  void (*copy_rows)(const FtCopyRows&);
  void (*head_norm_forward)(const FtHeadNormForward&);
  void (*head_norm_backward_input)(const FtHeadNormBackwardInput&);
  void (*head_norm_backward_weight)(const FtHeadNormBackwardWeight&);
  void (*softcap)(const FtSoftcap&);
  void (*momentum)(const FtMomentum&);
  void (*lion)(const FtMomentum&);
  void (*factor_sums)(const FtFactorSums&);
  void (*factor_moments)(const FtFactorMoments&);
  void (*factor_size)(const FtAdafactor&);
  void (*adafactor)(const FtAdafactor&);
};

// Tables that this processor can run, the fastest first; count >= 1. A plain array, because
// vector_<set>.cc includes this header too and must not emit shared inline code.
struct UsableVectorKernels {
  const VectorKernels* tables[3];
  int count;
};
UsableVectorKernels FindUsableVectorKernels();

// One function for each vector_<set>.cc of this build. Call only those that FindUsableVectorKernels
// returns.
const VectorKernels& BaselineVectorKernels();
const VectorKernels& Avx2VectorKernels();
const VectorKernels& Avx512VectorKernels();

}  // namespace foretrain
