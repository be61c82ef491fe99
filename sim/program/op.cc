#include "sim/program/op.h"

#include <cstddef>

#include "base/result.h"

namespace foretrain {
namespace {

constexpr std::array<std::string_view, kOpKindCount> kKindNames = {
    "gemm",
    "gemm_activation",
    "gemm_activation_kept",
    "gemm_activation_backward",
    "gemm_bias_grad",
    "bias_grad",
    "embedding_forward",
    "embedding_backward",
    "norm_forward",
    "norm_backward_input",
    "norm_backward_weight",
    "head_norm_forward",
    "head_norm_backward_input",
    "head_norm_backward_weight",
    "rope",
    "attention_forward",
    "attention_backward",
    "standard_attention_forward",
    "standard_attention_backward",
    "attention_part_forward",
    "attention_part_backward",
    "key_columns",
    "head_parts",
    "split_columns",
    "latent_heads",
    "sink_forward",
    "sink_backward",
    "gelu_forward",
    "gelu_backward",
    "swiglu_forward",
    "swiglu_backward",
    "add",
    "dropout",
    "dropout_mask",
    "dropout_backward",
    "softcap",
    "add_norm_forward",
    "cross_entropy_forward",
    "cross_entropy_backward",
    "vocab_max",
    "vocab_sums",
    "vocab_loss",
    "shift_targets",
    "route",
    "route_backward",
    "count_choices",
    "balance_bias",
    "expert_gather",
    "expert_combine",
    "expert_dots",
    "grouped_gemm",
    "expert_bias",
    "expert_bias_grad",
    "gate_forward",
    "gate_backward",
    "squared_norm",
    "adamw",
    "sgd",
    "adamw_amend",
    "sgd_amend",
    "count_not_finite",
    "count_skipped",
    "scale_loss",
    "quantize",
    "dequantize",
    "fill",
    "all_reduce",
    "reduce_scatter",
    "all_gather",
    "all_to_all",
    "all_to_all_v",
    "rotate",
    "send",
    "recv",
    "copy",
    "load_batch",
    "host_read",
    "read_counts",
    "opaque",
};
static_assert(static_cast<int>(OpKind::kOpaque) + 1 == kOpKindCount);

constexpr std::array<std::string_view, kGroupKindCount> kGroupNames = {
    "none",      "tp",   "kv_copies", "cp",    "dp",    "shard", "replica", "ep",
    "expert_dp", "ends", "dp_pp",     "tp_pp", "world", "next",  "prev",
};
static_assert(static_cast<int>(GroupKind::kPrev) + 1 == kGroupKindCount);

constexpr std::array<std::string_view, kNumberFormatCount> kFormatNames = {
    "fp32", "bf16", "fp8", "int8", "tf32", "fp16", "fp8-tensor",  "fp8-block",
    "fp4",  "mask", "nf4", "byte", "e4m3", "e5m2", "fp8-columns", "fp8-tile",
};
static_assert(static_cast<int>(NumberFormat::kFp8Tile) + 1 == kNumberFormatCount);

}  // namespace

std::span<const Operand> OperandsOf(const Block& block, const Op& op) {
  const std::int64_t end = std::int64_t{op.first_operand} + op.operand_count;
  FT_CHECK(op.first_operand >= 0 && op.operand_count >= 0 &&
           end <= static_cast<std::int64_t>(block.operands.size()));
  return {block.operands.data() + op.first_operand, static_cast<std::size_t>(op.operand_count)};
}

OperandFormats FormatsOf(const Block& block, const Op& op) {
  OperandFormats formats{};
  const std::span<const Operand> operands = OperandsOf(block, op);
  FT_CHECK(operands.size() <= kMostOperands || op.kind == OpKind::kOpaque);
  for (std::size_t i = 0; i < operands.size() && i < kMostOperands; ++i) {
    if (operands[i].slot == kNoSlot) continue;
    formats[i] = block.slots[static_cast<std::size_t>(operands[i].slot)].format;
  }
  return formats;
}

std::string_view Name(OpKind kind) {
  const auto index = static_cast<std::size_t>(kind);
  FT_CHECK(index < kKindNames.size());
  return kKindNames[index];
}

std::string_view Name(GroupKind group) {
  const auto index = static_cast<std::size_t>(group);
  FT_CHECK(index < kGroupNames.size());
  return kGroupNames[index];
}

std::string_view Name(NumberFormat format) {
  const auto index = static_cast<std::size_t>(format);
  FT_CHECK(index < kFormatNames.size());
  return kFormatNames[index];
}

}  // namespace foretrain
