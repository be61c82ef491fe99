#include "runtime/ops/kernel_call.h"

#include <array>
#include <string>
#include <vector>

namespace foretrain {
namespace {

// One row an op kind that is a kernel: which, how its arguments are made, which operands must be
// there (a bit each, in the op's order), and whether the table has the entry.
struct Row {
  OpKind kind;
  FtKernel kernel;
  KernelCall (*make)(const BoundOp&);
  unsigned required;
  bool (*present)(const FtDeviceApi&);
};

#define FT_ROW(kind, kernel, maker, required, entry)                                           \
  Row {                                                                                        \
    kind, kernel, maker, required, [](const FtDeviceApi& api) { return api.entry != nullptr; } \
  }

constexpr std::array kRows = {
    FT_ROW(OpKind::kGemm, FT_KERNEL_GEMM, MakeGemm, 0b1011, gemm),
    FT_ROW(OpKind::kGemmActivation, FT_KERNEL_GEMM, MakeGemm, 0b1011, gemm),
    FT_ROW(OpKind::kGemmActivationKept, FT_KERNEL_GEMM, MakeGemm, 0b11011, gemm),
    FT_ROW(OpKind::kGemmActivationBackward, FT_KERNEL_GEMM, MakeGemm, 0b11011, gemm),
    FT_ROW(OpKind::kGemmBiasGrad, FT_KERNEL_GEMM, MakeGemm, 0b11011, gemm),
    FT_ROW(OpKind::kBiasGrad, FT_KERNEL_BIAS_GRAD, MakeBiasGrad, 0b11, bias_grad),
    FT_ROW(OpKind::kEmbeddingForward, FT_KERNEL_EMBEDDING_FORWARD, MakeEmbeddingForward, 0b1011,
           embedding_forward),
    FT_ROW(OpKind::kEmbeddingBackward, FT_KERNEL_EMBEDDING_BACKWARD, MakeEmbeddingBackward, 0b111,
           embedding_backward),
    FT_ROW(OpKind::kNormForward, FT_KERNEL_NORM_FORWARD, MakeNormForward, 0b101011, norm_forward),
    FT_ROW(OpKind::kNormBackwardInput, FT_KERNEL_NORM_BACKWARD_INPUT, MakeNormBackwardInput,
           0b1010111, norm_backward_input),
    FT_ROW(OpKind::kNormBackwardWeight, FT_KERNEL_NORM_BACKWARD_WEIGHT, MakeNormBackwardWeight,
           0b11011, norm_backward_weight),
    FT_ROW(OpKind::kHeadNormForward, FT_KERNEL_HEAD_NORM_FORWARD, MakeHeadNormForward, 0b11111,
           head_norm_forward),
    FT_ROW(OpKind::kHeadNormBackwardInput, FT_KERNEL_HEAD_NORM_BACKWARD_INPUT,
           MakeHeadNormBackwardInput, 0b11111, head_norm_backward_input),
    FT_ROW(OpKind::kHeadNormBackwardWeight, FT_KERNEL_HEAD_NORM_BACKWARD_WEIGHT,
           MakeHeadNormBackwardWeight, 0b11111, head_norm_backward_weight),
    FT_ROW(OpKind::kRope, FT_KERNEL_ROPE, MakeRope, 0b1, rope),
    FT_ROW(OpKind::kAttentionForward, FT_KERNEL_ATTENTION_FORWARD, MakeAttentionForward, 0b111,
           attention_forward),
    FT_ROW(OpKind::kAttentionBackward, FT_KERNEL_ATTENTION_BACKWARD, MakeAttentionBackward, 0b11111,
           attention_backward),
    FT_ROW(OpKind::kAttentionPartForward, FT_KERNEL_ATTENTION_PART_FORWARD,
           MakeAttentionPartForward, 0b1111, attention_part_forward),
    FT_ROW(OpKind::kAttentionPartBackward, FT_KERNEL_ATTENTION_PART_BACKWARD,
           MakeAttentionPartBackward, 0b1111111, attention_part_backward),
    FT_ROW(OpKind::kStandardAttentionForward, FT_KERNEL_STANDARD_ATTENTION_FORWARD,
           MakeStandardAttentionForward, 0b111, standard_attention_forward),
    FT_ROW(OpKind::kStandardAttentionBackward, FT_KERNEL_STANDARD_ATTENTION_BACKWARD,
           MakeStandardAttentionBackward, 0b1110011, standard_attention_backward),
    FT_ROW(OpKind::kDropout, FT_KERNEL_DROPOUT, MakeDropout, 0b1001, dropout),
    FT_ROW(OpKind::kDropoutMask, FT_KERNEL_DROPOUT, MakeDropoutMask, 0b1, dropout),
    FT_ROW(OpKind::kDropoutBackward, FT_KERNEL_DROPOUT_BACKWARD, MakeDropoutBackward, 0b111,
           dropout_backward),
    FT_ROW(OpKind::kKeyColumns, FT_KERNEL_COPY_ROWS, MakeKeyColumns, 0b11, copy_rows),
    FT_ROW(OpKind::kHeadParts, FT_KERNEL_COPY_ROWS, MakeHeadParts, 0b11, copy_rows),
    FT_ROW(OpKind::kSplitColumns, FT_KERNEL_COPY_ROWS, MakeSplitColumns, 0b111, copy_rows),
    FT_ROW(OpKind::kLatentHeads, FT_KERNEL_LATENT_HEADS, MakeLatentHeads, 0b1111, latent_heads),
    FT_ROW(OpKind::kSinkForward, FT_KERNEL_SINK_FORWARD, MakeSinkForward, 0b111, sink_forward),
    FT_ROW(OpKind::kSinkBackward, FT_KERNEL_SINK_BACKWARD, MakeSinkBackward, 0b11111,
           sink_backward),
    FT_ROW(OpKind::kGeluForward, FT_KERNEL_GELU_FORWARD, MakeGeluForward, 0b11, gelu_forward),
    FT_ROW(OpKind::kGeluBackward, FT_KERNEL_GELU_BACKWARD, MakeGeluBackward, 0b111, gelu_backward),
    FT_ROW(OpKind::kSwigluForward, FT_KERNEL_SWIGLU_FORWARD, MakeSwigluForward, 0b11,
           swiglu_forward),
    FT_ROW(OpKind::kSwigluBackward, FT_KERNEL_SWIGLU_BACKWARD, MakeSwigluBackward, 0b111,
           swiglu_backward),
    FT_ROW(OpKind::kAdd, FT_KERNEL_ADD, MakeAdd, 0b1011, add),
    FT_ROW(OpKind::kSoftcap, FT_KERNEL_SOFTCAP, MakeSoftcap, 0b1, softcap),
    FT_ROW(OpKind::kAddNormForward, FT_KERNEL_ADD_NORM_FORWARD, MakeAddNormForward, 0b101101011,
           add_norm_forward),
    FT_ROW(OpKind::kCrossEntropyForward, FT_KERNEL_CROSS_ENTROPY_FORWARD, MakeCrossEntropyForward,
           0b1111, cross_entropy_forward),
    FT_ROW(OpKind::kCrossEntropyBackward, FT_KERNEL_CROSS_ENTROPY_BACKWARD,
           MakeCrossEntropyBackward, 0b111, cross_entropy_backward),
    FT_ROW(OpKind::kVocabMax, FT_KERNEL_VOCAB_MAX, MakeVocabMax, 0b11, vocab_max),
    FT_ROW(OpKind::kVocabSums, FT_KERNEL_VOCAB_SUMS, MakeVocabSums, 0b11111, vocab_sums),
    FT_ROW(OpKind::kVocabLoss, FT_KERNEL_VOCAB_LOSS, MakeVocabLoss, 0b111111, vocab_loss),
    FT_ROW(OpKind::kShiftTargets, FT_KERNEL_SHIFT_TARGETS, MakeShiftTargets, 0b11, shift_targets),
    FT_ROW(OpKind::kRoute, FT_KERNEL_ROUTE, MakeRoute, 0b1111111, route),
    FT_ROW(OpKind::kRouteBackward, FT_KERNEL_ROUTE_BACKWARD, MakeRouteBackward, 0b111111,
           route_backward),
    FT_ROW(OpKind::kExpertGather, FT_KERNEL_EXPERT_GATHER, MakeExpertGather, 0b1011, expert_gather),
    FT_ROW(OpKind::kExpertCombine, FT_KERNEL_EXPERT_COMBINE, MakeExpertCombine, 0b1011,
           expert_combine),
    FT_ROW(OpKind::kExpertDots, FT_KERNEL_EXPERT_DOTS, MakeExpertDots, 0b1111, expert_dots),
    FT_ROW(OpKind::kGroupedGemm, FT_KERNEL_GROUPED_GEMM, MakeGroupedGemm, 0b1011, grouped_gemm),
    FT_ROW(OpKind::kExpertBias, FT_KERNEL_EXPERT_BIAS, MakeExpertBias, 0b11, expert_bias),
    FT_ROW(OpKind::kExpertBiasGrad, FT_KERNEL_EXPERT_BIAS_GRAD, MakeExpertBiasGrad, 0b101,
           expert_bias_grad),
    FT_ROW(OpKind::kGateForward, FT_KERNEL_GATE_FORWARD, MakeGateForward, 0b111, gate_forward),
    FT_ROW(OpKind::kGateBackward, FT_KERNEL_GATE_BACKWARD, MakeGateBackward, 0b11111,
           gate_backward),
    FT_ROW(OpKind::kCountChoices, FT_KERNEL_COUNT_CHOICES, MakeCountChoices, 0b11, count_choices),
    FT_ROW(OpKind::kBalanceBias, FT_KERNEL_BALANCE_BIAS, MakeBalanceBias, 0b11, balance_bias),
    FT_ROW(OpKind::kSquaredNorm, FT_KERNEL_SQUARED_NORM, MakeSquaredNorm, 0b11, squared_norm),
    FT_ROW(OpKind::kCountNotFinite, FT_KERNEL_COUNT_NOT_FINITE, MakeCountNotFinite, 0b11,
           count_not_finite),
    FT_ROW(OpKind::kCountSkipped, FT_KERNEL_COUNT_SKIPPED, MakeCountSkipped, 0b11, count_skipped),
    FT_ROW(OpKind::kScaleLoss, FT_KERNEL_SCALE_LOSS, MakeScaleLoss, 0b111, scale_loss),
    FT_ROW(OpKind::kQuantize, FT_KERNEL_QUANTIZE, MakeQuantize, 0b1, quantize),
    FT_ROW(OpKind::kDequantize, FT_KERNEL_DEQUANTIZE, MakeDequantize, 0b11, dequantize),
};
#undef FT_ROW
constexpr unsigned kAdamWRequired = 0b1111;
constexpr unsigned kSgdRequired = 0b11;

const Row* RowOf(OpKind kind) {
  for (const Row& row : kRows) {
    if (row.kind == kind) return &row;
  }
  return nullptr;
}

Result<void> CheckOperands(const BoundOp& op, unsigned required) {
  for (std::size_t i = 0; required >> i != 0; ++i) {
    if ((required >> i & 1U) == 0 || op.Pointer(i) != nullptr) continue;
    return Fail(ErrorCode::kInvalidArgument, std::string(Name(op.op.kind)) + " " + op.op.name +
                                                 ": operand " + std::to_string(i) +
                                                 " is missing; the program is malformed");
  }
  return {};
}

}  // namespace

std::optional<FtKernel> KernelOf(OpKind kind) {
  if (kind == OpKind::kAdamW) return FT_KERNEL_ADAMW;
  if (kind == OpKind::kSgd) return FT_KERNEL_SGD;
  if (kind == OpKind::kAdamWAmend) return FT_KERNEL_ADAMW_AMEND;
  if (kind == OpKind::kSgdAmend) return FT_KERNEL_SGD_AMEND;
  const Row* const row = RowOf(kind);
  return row == nullptr ? std::nullopt : std::optional<FtKernel>(row->kernel);
}

Result<KernelCall> MakeKernelCall(const BoundOp& op, const OptimizerSettings& optimizer) {
  if (op.op.kind == OpKind::kAdamW) {
    FT_TRY(CheckOperands(op, kAdamWRequired));
    return MakeAdamW(op, optimizer);
  }
  if (op.op.kind == OpKind::kSgd) {
    FT_TRY(CheckOperands(op, kSgdRequired));
    return MakeSgd(op, optimizer);
  }
  if (op.op.kind == OpKind::kAdamWAmend) {
    FT_TRY(CheckOperands(op, kAdamWRequired));
    return MakeAdamWAmend(op, optimizer);
  }
  if (op.op.kind == OpKind::kSgdAmend) {
    FT_TRY(CheckOperands(op, kSgdRequired));
    return MakeSgdAmend(op, optimizer);
  }
  if (op.op.kind == OpKind::kFill) {
    FT_TRY(CheckOperands(op, 0b1));
    return MakeFill(op);
  }
  const Row* const row = RowOf(op.op.kind);
  if (row == nullptr) return KernelCall{};
  FT_TRY(CheckOperands(op, row->required));
  if (op.op.kind == OpKind::kQuantize) {  // to codes with scales apart, or to numbers
    FT_TRY(CheckOperands(op, HasScalesApart(op.op.format) ? 0b100 : 0b10));
  }
  if (op.op.shape.cp > 0 && op.runs == nullptr) {
    return Fail(ErrorCode::kInvalidArgument, std::string(Name(op.op.kind)) + " " + op.op.name +
                                                 ": no positions of its shared-out sequence");
  }
  return row->make(op);
}

std::optional<FtDtype> DtypeOf(NumberFormat format) {
  switch (format) {
    case NumberFormat::kFp32:
      return FT_F32;
    case NumberFormat::kBf16:
      return FT_BF16;
    case NumberFormat::kFp16:
      return FT_F16;
    case NumberFormat::kMask:
    case NumberFormat::kByte:
      return FT_U8;
    case NumberFormat::kNf4:
      return FT_NF4;
    case NumberFormat::kE4m3:
      return FT_FP8;
    case NumberFormat::kE5m2:
      return FT_E5M2;
    default:
      return std::nullopt;
  }
}

namespace {

// The kernel of the table that the op needs, and whether it is there.
struct Needed {
  FtKernel kernel;
  bool present;
};
std::optional<Needed> NeededBy(const FtDeviceApi& api, const Op& op) {
  switch (op.kind) {
    case OpKind::kQuantize:
      if (!HasScalesApart(op.format)) break;
      return Needed{FT_KERNEL_QUANTIZE_TENSOR, api.quantize_tensor != nullptr};
    case OpKind::kAdamW:
      return Needed{FT_KERNEL_ADAMW, api.adamw != nullptr};
    case OpKind::kSgd:
      return Needed{FT_KERNEL_SGD, api.sgd != nullptr};
    case OpKind::kAdamWAmend:
      return Needed{FT_KERNEL_ADAMW_AMEND, api.adamw_amend != nullptr};
    case OpKind::kSgdAmend:
      return Needed{FT_KERNEL_SGD_AMEND, api.sgd_amend != nullptr};
    case OpKind::kAllReduce:
    case OpKind::kReduceScatter:
      return Needed{FT_KERNEL_SUM_RANKS, api.sum_ranks != nullptr};
    default:
      break;
  }
  const Row* const row = RowOf(op.kind);
  if (row == nullptr) return std::nullopt;
  return Needed{row->kernel, row->present(api)};
}

// What the table calls a format that an op computes in, or casts to: of codes with scales apart, of
// which its operands say how they lie, that of the codes.
std::optional<FtDtype> ComputedDtype(NumberFormat format) {
  if (HasScalesApart(format)) return FT_FP8;
  return format == NumberFormat::kTf32 ? std::optional(FT_TF32) : DtypeOf(format);
}

// The first format, of those that its operands are stored in and that it computes in, for which the
// device has no kernel.
std::optional<NumberFormat> FormatLacking(const FtDeviceApi& api, const Op& op) {
  const std::optional<Needed> needed = NeededBy(api, op);
  const auto has = [&](std::optional<FtDtype> dtype) {
    return dtype && (!needed || (needed->present && api.supports(needed->kernel, *dtype) != 0));
  };
  if (!has(FT_F32)) return NumberFormat::kFp32;
  for (const NumberFormat format : op.formats) {
    if (!has(DtypeOf(format))) return format;
  }
  const bool computes = op.op_class == OpClass::kGemm || op.op_class == OpClass::kAttention;
  if (computes && !has(ComputedDtype(op.format))) return op.format;
  return std::nullopt;
}

}  // namespace

std::optional<std::string> WhyUnsupported(const FtDeviceApi& api, const Op& op) {
  const std::optional<NumberFormat> format = FormatLacking(api, op);
  if (!format) return std::nullopt;
  std::string name = *format == NumberFormat::kFp32 ? "f32" : std::string(Name(*format));
  if (*format == NumberFormat::kFp4) {
    name += ", which is forecast alone (use precision fp8-block or bf16)";
  }
  return std::string(api.name) + " has no kernel " + std::string(Name(op.kind)) + " for " + name;
}

}  // namespace foretrain
