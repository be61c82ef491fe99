// Fills a VectorKernels table with the functions of this instruction set.
#pragma once

#include "kernels/cpu/vector/add_norm.h"
#include "kernels/cpu/vector/attention_backward.h"
#include "kernels/cpu/vector/attention_forward.h"
#include "kernels/cpu/vector/attention_part.h"
#include "kernels/cpu/vector/cross_entropy.h"
#include "kernels/cpu/vector/elementwise.h"
#include "kernels/cpu/vector/experts.h"
#include "kernels/cpu/vector/factored_update.h"
#include "kernels/cpu/vector/gemm.h"
#include "kernels/cpu/vector/head_norm.h"
#include "kernels/cpu/vector/quantize.h"
#include "kernels/cpu/vector/rope.h"
#include "kernels/cpu/vector/rows.h"
#include "kernels/cpu/vector/update.h"
#include "kernels/cpu/vector_kernels.h"

namespace foretrain::FT_VECTOR_NAMESPACE {

// Fields are named, so that a kernel cannot land in another one's place.
constexpr VectorKernels MakeTable(const char* name) {
  return {.name = name,
          .gemm = &Gemm,
          .bias_grad = &BiasGrad,
          .embedding_forward = &EmbeddingForward,
          .embedding_backward = &EmbeddingBackward,
          .norm_forward = &NormForward,
          .norm_backward_input = &NormBackwardInput,
          .norm_backward_weight = &NormBackwardWeight,
          .rope = &Rope,
          .attention_forward = &AttentionForward,
          .attention_backward = &AttentionBackward,
          .gelu_forward = &GeluForward,
          .gelu_backward = &GeluBackward,
          .swiglu_forward = &SwigluForward,
          .swiglu_backward = &SwigluBackward,
          .add = &Add,
          .add_norm_forward = &AddNormForward,
          .cross_entropy_forward = &CrossEntropyForward,
          .cross_entropy_backward = &CrossEntropyBackward,
          .vocab_max = &VocabMax,
          .vocab_sums = &VocabSums,
          .vocab_loss = &VocabLoss,
          .expert_gather = &ExpertGather,
          .expert_combine = &ExpertCombine,
          .expert_dots = &ExpertDots,
          .squared_norm = &SquaredNorm,
          .adamw = &AdamW,
          .sgd = &Sgd,
          .adamw_amend = &AdamWAmend,
          .sgd_amend = &SgdAmend,
          .count_not_finite = &CountNotFinite,
          .count_skipped = &CountSkipped,
          .quantize = &Quantize,
          .dequantize = &Dequantize,
          .sum_ranks = &SumRanks,
          .attention_part_forward = &AttentionPartForward,
          .attention_part_backward = &AttentionPartBackward,
          .copy_rows = &CopyRowRange,
          .head_norm_forward = &HeadNormForward,
          .head_norm_backward_input = &HeadNormBackwardInput,
          .head_norm_backward_weight = &HeadNormBackwardWeight,
          .softcap = &Softcap,
          .momentum = &Momentum,
          .lion = &Lion,
          .factor_sums = &FactorSums,
          .factor_moments = &FactorMoments,
          .factor_size = &FactorSize,
          .adafactor = &Adafactor};
}

}  // namespace foretrain::FT_VECTOR_NAMESPACE
