// From an op of the program to one call of the device table: the argument struct is made once, when
// the program is loaded, because addresses are static. Leaves out communication
// (runtime/communicator.h) and host work (runtime/executor/).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/device_api.h"
#include "base/result.h"
#include "sim/program/op.h"

namespace foretrain {

struct InstructionKey;
struct Plan;

// What an update needs beside its tensors: AdamW, Loshchilov and Hutter 2019.
struct OptimizerSettings {
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float epsilon = 1e-8F;
  float weight_decay = 0.1F;
  std::uint64_t seed = 0;  // of the rounding of bf16 weights that have no master
};

// What changes from step to step.
struct StepValues {
  std::int64_t step = 0;  // from 0
  float learning_rate = 0.0F;
  float learning_rate_before = 0.0F;  // of the step before
  std::int64_t rows = -1;             // of an op that follows counts
};

class SequenceRuns;

// What the device table calls it; nothing where it has no name for it.
std::optional<FtDtype> DtypeOf(NumberFormat format);

// What the products of a GEMM read of fp32: FT_F32 or FT_TF32.
FtDtype ComputeOf(const Op& op);

// How the operands of a product in 8 bits share scales: all of a tensor, or by blocks along the
// depth, rows or columns, and weights by squares.
struct ProductScaling {
  FtScaling a = FT_SCALE_TENSOR;
  FtScaling b = FT_SCALE_TENSOR;
};
ProductScaling ScalingOf(const Op& op);

// What the device table calls the activation of kGelu* and kGemmActivation*.
FtActivation PlainActivationOf(ActivationKind kind);

// Where an op's random numbers come from.
struct RandomPlace {
  std::uint64_t stream = 0;  // of the run's seed, the block and the op's dropout_site
  std::int64_t first_sample = 0;
};
// Of an op of instruction `key` on a rank with data-parallel coordinate `dp`.
RandomPlace RandomPlaceOf(const Op& op, std::uint64_t seed, const InstructionKey& key,
                          const Plan& plan, int dp);

// An op with the addresses of its operands, in the op's order; null where one is left out.
struct BoundOp {
  const Op& op;
  std::span<const Operand> operands;
  std::span<std::byte* const> at;
  int tp = 0;  // the rank's coordinate

  // First id of this rank's share of the vocabulary.
  std::int64_t FirstId() const { return op.shape.vocab_total == 0 ? 0 : tp * op.shape.vocab; }

  int micro_batch = 0;  // of the instruction

  // Of an op whose shape has cp: the rank's place among those that share out a sequence, and where
  // the rows of all lie in it, which outlives the call.
  int cp = 0;
  const SequenceRuns* runs = nullptr;

  // Of an op that drops: the stream of its random numbers, and the first sample and head that it
  // has of the step's batch.
  RandomPlace random = {};

  // Place among the ranks that experts are dealt to, and the bytes of each operand.
  int member = 0;
  std::span<const std::int64_t> bytes = {};

  template <class T = void>
  T* Pointer(std::size_t i) const {
    return i < at.size() ? static_cast<T*>(static_cast<void*>(at[i])) : nullptr;
  }
  // Of operand i, which WhyUnsupported has let pass.
  FtDtype Dtype(std::size_t i) const { return DtypeOf(op.formats[i]).value_or(FT_F32); }
  // Number `element` of operand i.
  void* Element(std::size_t i, std::int64_t element) const {
    return Pointer<std::byte>(i) + BytesIn(op.formats[i], element);
  }
};

// Update `update` of the `updates` of each step.
struct AdamWCall {
  FtAdamW adamw;
  std::int64_t update;
  std::int64_t updates;
};

struct FillCall {
  void* to;
  std::int64_t bytes;
};

// Rows [q | k | v], of `widths`, and `count` parts of them one behind the other.
struct HeadPartsCall {
  std::byte* whole;
  std::byte* parts;
  std::int64_t rows;
  std::int64_t widths[3];
  std::int64_t count;
  std::int64_t each;  // bytes of a number
  FtDtype dtype;
  bool inverse;
};

// Rows [left | right] and each of the two by itself.
struct SplitColumnsCall {
  std::byte* whole;
  std::byte* left;
  std::byte* right;
  std::int64_t rows, left_cols, right_cols;
  std::int64_t each;  // bytes of a number
  FtDtype dtype;
  bool inverse;
};

union KernelArgs {
  FillCall fill;
  FtGemm gemm;
  FtBiasGrad bias_grad;
  FtEmbeddingForward embedding_forward;
  FtEmbeddingBackward embedding_backward;
  FtNormForward norm_forward;
  FtNormBackwardInput norm_backward_input;
  FtNormBackwardWeight norm_backward_weight;
  FtHeadNormForward head_norm_forward;
  FtHeadNormBackwardInput head_norm_backward_input;
  FtHeadNormBackwardWeight head_norm_backward_weight;
  FtRope rope;
  FtAttentionForward attention_forward;
  FtAttentionBackward attention_backward;
  FtAttentionPartForward attention_part_forward;
  FtAttentionPartBackward attention_part_backward;
  FtStandardAttentionForward standard_attention_forward;
  FtStandardAttentionBackward standard_attention_backward;
  FtDropout dropout;
  FtDropoutBackward dropout_backward;
  FtCopyRows copy_rows;
  HeadPartsCall head_parts;
  SplitColumnsCall split_columns;
  FtLatentHeads latent_heads;
  FtSinkForward sink_forward;
  FtSinkBackward sink_backward;
  FtGelu gelu;
  FtSwiglu swiglu;
  FtAdd add;
  FtSoftcap softcap;
  FtAddNormForward add_norm_forward;
  FtCrossEntropyForward cross_entropy_forward;
  FtCrossEntropyBackward cross_entropy_backward;
  FtVocabMax vocab_max;
  FtVocabSums vocab_sums;
  FtVocabLoss vocab_loss;
  FtShiftTargets shift_targets;
  FtRoute route;
  FtRouteBackward route_backward;
  FtExpertGather expert_gather;
  FtExpertCombine expert_combine;
  FtExpertDots expert_dots;
  FtGroupedGemm grouped_gemm;
  FtExpertBias expert_bias;
  FtExpertBiasGrad expert_bias_grad;
  FtGateForward gate;
  FtGateBackward gate_backward;
  FtCountChoices count_choices;
  FtBalanceBias balance_bias;
  FtSquaredNorm squared_norm;
  AdamWCall adamw;
  FtSgd sgd;
  FtAdamWAmend adamw_amend;
  FtSgdAmend sgd_amend;
  FtCountNotFinite count_not_finite;
  FtCountSkipped count_skipped;
  FtScaleLoss scale_loss;
  FtQuantize quantize;
  FtQuantizeTensor quantize_tensor;
};

// Ready to launch. `launch` is null for ops that are no kernel.
struct KernelCall {
  using Launch = FtStatus (*)(const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                              const StepValues& values);
  Launch launch = nullptr;
  KernelArgs args{};
  // Where the number of rows follows counts: these, on the device, and sizes to read them by;
  // StepValues::rows has it at the launch.
  const std::byte* counts = nullptr;
  OpShape shape = {};
  int member = 0;
  std::string_view router;  // args.route: its name in the program; else empty
};

// The launch of an entry whose arguments no step changes.
template <auto entry, auto member>
FtStatus CallOf(const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args, const StepValues&) {
  return (api.*entry)(queue, &(args.*member));
}

// The product that a call is; null where it is another.
const FtGemm* GemmOf(const KernelCall& call);

// The pass of attention over whole sequences that a call is; null where it is another.
const FtAttentionForward* AttentionForwardOf(const KernelCall& call);
const FtAttentionBackward* AttentionBackwardOf(const KernelCall& call);

// The kernel that an op of this kind calls, if it is one entry of the table.
std::optional<FtKernel> KernelOf(OpKind kind);

// Fills the call for an op. One per family, in the file of that name:
// runtime/ops/linear.cc, embedding.cc, norm.cc, head_norm.cc, attention.cc, context_attention.cc,
// standard_attention.cc, dropout.cc, activation.cc, loss.cc, moe.cc, gate.cc, optimizer.cc,
// quantize.cc.
KernelCall MakeGemm(const BoundOp& op);
KernelCall MakeBiasGrad(const BoundOp& op);
KernelCall MakeEmbeddingForward(const BoundOp& op);
KernelCall MakeEmbeddingBackward(const BoundOp& op);
KernelCall MakeNormForward(const BoundOp& op);
KernelCall MakeNormBackwardInput(const BoundOp& op);
KernelCall MakeNormBackwardWeight(const BoundOp& op);
KernelCall MakeHeadNormForward(const BoundOp& op);
KernelCall MakeHeadNormBackwardInput(const BoundOp& op);
KernelCall MakeHeadNormBackwardWeight(const BoundOp& op);
KernelCall MakeRope(const BoundOp& op);
KernelCall MakeAttentionForward(const BoundOp& op);
KernelCall MakeAttentionBackward(const BoundOp& op);
KernelCall MakeAttentionPartForward(const BoundOp& op);
KernelCall MakeAttentionPartBackward(const BoundOp& op);
KernelCall MakeStandardAttentionForward(const BoundOp& op);
KernelCall MakeStandardAttentionBackward(const BoundOp& op);
KernelCall MakeDropout(const BoundOp& op);
KernelCall MakeDropoutMask(const BoundOp& op);
KernelCall MakeDropoutBackward(const BoundOp& op);
KernelCall MakeKeyColumns(const BoundOp& op);
KernelCall MakeHeadParts(const BoundOp& op);
KernelCall MakeSplitColumns(const BoundOp& op);
KernelCall MakeLatentHeads(const BoundOp& op);
KernelCall MakeSinkForward(const BoundOp& op);
KernelCall MakeSinkBackward(const BoundOp& op);
KernelCall MakeGeluForward(const BoundOp& op);
KernelCall MakeGeluBackward(const BoundOp& op);
KernelCall MakeSwigluForward(const BoundOp& op);
KernelCall MakeSwigluBackward(const BoundOp& op);
KernelCall MakeAdd(const BoundOp& op);
KernelCall MakeSoftcap(const BoundOp& op);
KernelCall MakeAddNormForward(const BoundOp& op);
KernelCall MakeCrossEntropyForward(const BoundOp& op);
KernelCall MakeCrossEntropyBackward(const BoundOp& op);
KernelCall MakeVocabMax(const BoundOp& op);
KernelCall MakeVocabSums(const BoundOp& op);
KernelCall MakeVocabLoss(const BoundOp& op);
KernelCall MakeShiftTargets(const BoundOp& op);
KernelCall MakeRoute(const BoundOp& op);
KernelCall MakeRouteBackward(const BoundOp& op);
KernelCall MakeExpertGather(const BoundOp& op);
KernelCall MakeExpertCombine(const BoundOp& op);
KernelCall MakeExpertDots(const BoundOp& op);
KernelCall MakeGroupedGemm(const BoundOp& op);
KernelCall MakeExpertBias(const BoundOp& op);
KernelCall MakeExpertBiasGrad(const BoundOp& op);
KernelCall MakeGateForward(const BoundOp& op);
KernelCall MakeGateBackward(const BoundOp& op);
KernelCall MakeCountChoices(const BoundOp& op);
KernelCall MakeBalanceBias(const BoundOp& op);
KernelCall MakeSquaredNorm(const BoundOp& op);
KernelCall MakeAdamW(const BoundOp& op, const OptimizerSettings& optimizer);
KernelCall MakeSgd(const BoundOp& op, const OptimizerSettings& optimizer);
KernelCall MakeAdamWAmend(const BoundOp& op, const OptimizerSettings& optimizer);
KernelCall MakeSgdAmend(const BoundOp& op, const OptimizerSettings& optimizer);
KernelCall MakeCountNotFinite(const BoundOp& op);
KernelCall MakeCountSkipped(const BoundOp& op);
KernelCall MakeScaleLoss(const BoundOp& op);
KernelCall MakeQuantize(const BoundOp& op);
KernelCall MakeDequantize(const BoundOp& op);
KernelCall MakeFill(const BoundOp& op);

// What dropout of attention's weights keeps, before the step is known; none where nothing drops.
FtRandomMask RandomMaskOf(const BoundOp& op, std::int64_t first_head);
// The same in the step of `values`.
FtRandomMask InStep(FtRandomMask mask, const StepValues& values);

// The call for any arithmetic op; one without `launch` for communication, host work and kOpaque.
//
// Errors: kInvalidArgument, an operand or the runs of a shared-out sequence are missing.
Result<KernelCall> MakeKernelCall(const BoundOp& op, const OptimizerSettings& optimizer);

// Nothing, or why the device cannot run the op: "cpu has no kernel gemm for fp8-tensor".
// Collectives that sum need the device's sum over ranks.
std::optional<std::string> WhyUnsupported(const FtDeviceApi& api, const Op& op);

}  // namespace foretrain
