#include "sim/program/op.h"

#include <cstddef>

#include "base/result.h"
#include "sim/program/attention_pairs.h"

namespace foretrain {
namespace {

constexpr std::array<std::string_view, kOpKindCount> kKindNames = {
    "gemm",
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
    "expert_gather",
    "expert_combine",
    "expert_dots",
    "grouped_gemm",
    "expert_bias",
    "expert_bias_grad",
    "squared_norm",
    "adamw",
    "sgd",
    "adamw_amend",
    "sgd_amend",
    "count_not_finite",
    "count_skipped",
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
    "none",      "tp",   "cp",    "dp",    "shard", "replica", "ep",
    "expert_dp", "ends", "dp_pp", "tp_pp", "world", "next",    "prev",
};
static_assert(static_cast<int>(GroupKind::kPrev) + 1 == kGroupKindCount);

constexpr std::array<std::string_view, kNumberFormatCount> kFormatNames = {
    "fp32", "bf16", "fp8", "int8", "tf32", "fp16", "fp8-tensor", "fp8-block", "fp4", "mask",
};
static_assert(static_cast<int>(NumberFormat::kMask) + 1 == kNumberFormatCount);

constexpr double kWord = 4;  // bytes: fp32, i32

// Sizes of an op as doubles: products of five counts may pass 2^63.
struct Sizes {
  explicit Sizes(const Op& op)
      : rows(static_cast<double>(op.shape.rows)),
        cols(static_cast<double>(op.shape.cols)),
        inner(static_cast<double>(op.shape.inner)),
        vocab(static_cast<double>(op.shape.vocab)),
        elements(static_cast<double>(op.shape.elements)),
        matrix(rows * cols),
        output_passes(op.accumulate ? 2 : 1),
        vectors(op.rms ? 1 : 2) {}

  double rows;
  double cols;
  double inner;
  double vocab;
  double elements;
  double matrix;         // rows x cols
  double output_passes;  // an output that is added to is read as well
  double vectors;        // LayerNorm has a mean beside rstd and a bias beside the weight
};

// Bytes of a number of operand `i`.
double Each(const Op& op, std::size_t i) { return BytesEach(op.formats[i]); }

OpWork GemmWork(const Op& op, const Sizes& s) {
  return {2 * s.rows * s.cols * s.inner, s.rows * s.inner * Each(op, 0) +
                                             s.inner * s.cols * Each(op, 1) +
                                             s.output_passes * s.matrix * Each(op, 3)};
}

// Products over the pairs of a query and a key (attention_pairs.h), each of head_dim or of
// value_dim multiplications and additions: forward Q K^T and P V; backward Q K^T, dQ, dK and dP,
// dV. Leaves out the softmax: about 5 flop a pair, under 2 % from head_dim 64 on, and what bends
// scores.
double FlopOfPair(const OpShape& shape, bool forward) {
  const double keys = shape.head_dim, values = shape.ValueDim();
  return 2 * (forward ? keys + values : 3 * keys + 2 * values);
}

// `of_outputs`, `of_inputs`: bytes of a number of all tensors of the output's shape, and of qkv's.
OpWork AttentionWork(const Op& op, bool forward, double of_inputs, double of_outputs) {
  const OpShape& shape = op.shape;
  const double pairs = static_cast<double>(shape.batch) * shape.heads *
                       PairsOfSequence(shape.sequence, shape.window);
  const auto rows = static_cast<double>(shape.rows);
  const double heads = shape.heads;
  const double width = heads * shape.ValueDim();
  const double qkv_width = heads * shape.head_dim + static_cast<double>(shape.kv_heads) *
                                                        (shape.head_dim + shape.ValueDim());
  return {pairs * FlopOfPair(shape, forward),
          rows * (of_inputs * qkv_width + of_outputs * width + heads * Each(op, 2))};
}

// The products of flash attention but for the scores, which the backward has. Matrices of scores
// are made and read by their softmax, which is made and read by what is behind it; with dropout that
// is made and read as well, with its mask.
OpWork StandardAttentionWork(const Op& op) {
  const OpShape& shape = op.shape;
  const bool forward = op.kind == OpKind::kStandardAttentionForward;
  const double each = Each(op, 0);
  const auto rows = static_cast<double>(shape.rows);
  const double heads = shape.heads;
  const double width = heads * shape.head_dim;
  const double qkv_width = (heads + 2.0 * shape.kv_heads) * shape.head_dim;
  const double scores = rows * heads * static_cast<double>(shape.sequence);
  const double pairs = static_cast<double>(shape.batch) * heads *
                       PairsOfSequence(shape.sequence, shape.window);
  const bool drops = op.dropout > 0;
  const double product = 2 * pairs * shape.head_dim;
  if (forward && shape.inner == 0) {
    return {product, rows * each * qkv_width + scores * ((drops ? 5 : 3) * each + (drops ? 1 : 0))};
  }
  if (forward) {
    return {2 * product, rows * each * (qkv_width + width) +
                             scores * ((drops ? 6 : 4) * each + (drops ? 1 : 0))};
  }
  // Weights are read for the values' gradient and for the softmax's; gradients of scores are written,
  // read and written by the softmax's, and read by two products; with dropout in between once more.
  return {4 * product, rows * each * (2 * qkv_width + width) +
                           scores * ((drops ? 9 : 7) * each + (drops ? 1 : 0))};
}

// Each tensor once: what is dropped from, what it is added to, the result and the mask.
OpWork DropoutWork(const Op& op, const Sizes& s) {
  if (op.kind == OpKind::kDropoutBackward) {
    return {s.matrix, s.matrix * (Each(op, 0) + Each(op, 1) + Each(op, 2))};
  }
  if (op.kind == OpKind::kDropoutMask) return {s.matrix, s.matrix * Each(op, 0)};
  const double mask = op.formats[4] == NumberFormat::kMask ? Each(op, 4) : 0;
  return {3 * s.matrix,
          s.matrix * (Each(op, 0) + (op.accumulate ? Each(op, 2) : 0) + Each(op, 3) + mask)};
}

// A part that adds to earlier ones reads what it adds to: out and lse, or dq.
OpWork AttentionPartWork(const Op& op) {
  const OpShape& shape = op.shape;
  const bool forward = op.kind == OpKind::kAttentionPartForward;
  const double pairs = static_cast<double>(shape.batch) * shape.heads * PairsOfPart(shape);
  const double heads = shape.heads;
  const double query = static_cast<double>(shape.rows) * heads * shape.head_dim;
  const double out = static_cast<double>(shape.rows) * heads * shape.ValueDim();
  const double keys = static_cast<double>(shape.inner) * shape.kv_heads *
                      (static_cast<double>(shape.head_dim) + shape.ValueDim());
  const double lse = static_cast<double>(shape.rows) * heads * Each(op, 3);
  const double passes = op.accumulate ? 2 : 1;
  if (forward) {
    return {pairs * FlopOfPair(shape, true),
            query * Each(op, 0) + keys * Each(op, 1) + passes * (out * Each(op, 2) + lse)};
  }
  return {pairs * FlopOfPair(shape, false), query * (Each(op, 0) + passes * Each(op, 5)) +
                                                out * (Each(op, 2) + Each(op, 4)) +
                                                keys * (Each(op, 1) + Each(op, 6)) + lse};
}

// What is copied is read and written.
OpWork CopyWork(const Op& op) {
  const OpShape& s = op.shape;
  const double heads = op.kind == OpKind::kKeyColumns ? 0.0 : s.heads;
  return {0, (Each(op, 0) + Each(op, 1)) * static_cast<double>(s.rows) *
                 (heads * s.head_dim + static_cast<double>(s.kv_heads) *
                                           (static_cast<double>(s.head_dim) + s.ValueDim()))};
}

// Each number of the parts is read or written once, and so is each of the whole; the turned key
// goes to all heads, or is their sum.
OpWork LatentWork(const Op& op) {
  const OpShape& s = op.shape;
  const auto rows = static_cast<double>(s.rows);
  const double each = Each(op, 0) + Each(op, 1);
  if (op.kind == OpKind::kSplitColumns)
    return {0, rows * static_cast<double>(s.cols + s.inner) * each};
  const double heads = s.heads, plain = s.head_dim - s.rotary;
  const double parts = heads * (s.head_dim + plain + s.value_dim) + s.rotary;
  const double whole = heads * (2.0 * s.head_dim + s.value_dim);
  return {op.inverse ? rows * heads * s.rotary : 0, rows * (parts + whole) * each / 2};
}

// Forward an exponential and a logarithm a head, and its output scaled; backward a dot product.
OpWork SinkWork(const Op& op) {
  const double items = static_cast<double>(op.shape.rows) * op.shape.heads;
  const double outputs = items * op.shape.head_dim;
  if (op.kind == OpKind::kSinkForward) {
    return {outputs + 6 * items, 2 * (outputs * Each(op, 0) + items * Each(op, 1))};
  }
  return {2 * (outputs + items), outputs * (Each(op, 0) + Each(op, 1)) + items * Each(op, 2)};
}

// Query and key heads are read and written.
OpWork RopeWork(const Op& op) {
  const double rotated = static_cast<double>(op.shape.rows) *
                         (static_cast<double>(op.shape.heads) + op.shape.kv_heads) *
                         (op.shape.rotary > 0 ? op.shape.rotary : op.shape.head_dim);
  return {3 * rotated, 2 * rotated * Each(op, 0)};
}

// Flops of the memory-bound kinds are counts of the multiplications, additions, divisions and
// exponentials of one element.
OpWork EmbeddingWork(const Op& op, const Sizes& s) {
  const double ids = s.rows * kWord;
  if (op.kind == OpKind::kEmbeddingForward) {  // the rows that are looked up, not the whole table
    return {s.matrix, ids + s.matrix * (Each(op, 1) + Each(op, 3))};
  }
  // Rows that are added to; a table that starts at 0 is filled.
  return {s.matrix, ids + s.matrix * (Each(op, 1) + 2 * Each(op, 2)) +
                        (op.accumulate ? 0 : s.vocab * s.cols * Each(op, 2))};
}

OpWork NormWork(const Op& op, const Sizes& s) {
  if (op.kind == OpKind::kNormForward) {
    return {(op.rms ? 4 : 8) * s.matrix,
            s.matrix * (Each(op, 0) + Each(op, 3)) +
                s.vectors * (s.cols * Each(op, 1) + s.rows * Each(op, 5))};
  }
  if (op.kind == OpKind::kNormBackwardInput) {  // with the residual's gradient
    return {(op.rms ? 8 : 11) * s.matrix, s.matrix * (Each(op, 0) + Each(op, 1) + 2 * Each(op, 6)) +
                                              s.cols * Each(op, 2) +
                                              s.vectors * s.rows * Each(op, 4)};
  }
  return {(op.rms ? 3 : 5) * s.matrix,
          s.matrix * (Each(op, 0) + Each(op, 1)) +
              s.vectors * (s.rows * Each(op, 3) + s.output_passes * s.cols * Each(op, 4))};
}

// Heads of q and k, each a row of a norm whose weight is one of two. The forward keeps what was
// there, and so does the backward.
OpWork HeadNormWork(const Op& op, const Sizes& s) {
  const double rows = s.rows * (static_cast<double>(op.shape.heads) + op.shape.kv_heads);
  const double matrix = rows * op.shape.head_dim, weight = op.shape.head_dim;
  if (op.kind == OpKind::kHeadNormForward) {
    return {4 * matrix, matrix * (2 * Each(op, 0) + Each(op, 3)) + rows * Each(op, 4) +
                            weight * (Each(op, 1) + Each(op, 2))};
  }
  if (op.kind == OpKind::kHeadNormBackwardInput) {
    return {8 * matrix, matrix * (2 * Each(op, 0) + Each(op, 1) + Each(op, 5)) +
                            rows * Each(op, 2) + weight * (Each(op, 3) + Each(op, 4))};
  }
  return {3 * matrix, matrix * (Each(op, 0) + Each(op, 1)) + rows * Each(op, 2) +
                          s.output_passes * weight * (Each(op, 3) + Each(op, 4))};
}

// SwiGLU has a gate beside what goes up: its x and dx are twice as wide.
OpWork ActivationWork(const Op& op, const Sizes& s) {
  const double first = Each(op, 0), second = Each(op, 1), third = Each(op, 2);
  if (op.kind == OpKind::kGeluForward) return {9 * s.matrix, s.matrix * (first + second)};
  if (op.kind == OpKind::kGeluBackward) return {16 * s.matrix, s.matrix * (first + second + third)};
  if (op.kind == OpKind::kSwigluForward) return {5 * s.matrix, s.matrix * (2 * first + second)};
  return {11 * s.matrix, s.matrix * (2 * first + second + 2 * third)};
}

OpWork CrossEntropyWork(const Op& op, const Sizes& s) {
  const double logits = s.rows * s.vocab, bytes = logits * Each(op, 0), row_bytes = s.rows * kWord;
  if (op.kind == OpKind::kCrossEntropyForward) return {4 * logits, bytes + 2 * row_bytes};
  if (op.kind == OpKind::kVocabMax) return {logits, bytes + row_bytes};
  if (op.kind == OpKind::kVocabSums) return {3 * logits, bytes + 4 * row_bytes};
  if (op.kind == OpKind::kVocabLoss) return {4 * s.rows, 5 * row_bytes};
  return {3 * logits, 2 * bytes + 2 * row_bytes};
}

// The choice compares each score once for each expert of the token. Rows of experts come and go
// once.
OpWork ExpertWork(const Op& op, const Sizes& s) {
  const double per_token = op.shape.per_token, experts = op.shape.experts;
  const double pairs = s.rows * per_token;
  switch (op.kind) {
    case OpKind::kRoute:
      return {(5 + per_token) * s.rows * experts, s.rows * experts * (Each(op, 0) + Each(op, 1)) +
                                                      (3 * pairs + s.elements + experts) * kWord};
    case OpKind::kRouteBackward:
      return {6 * s.rows * experts,
              s.rows * experts * (Each(op, 0) + Each(op, 5)) + (3 * pairs + experts) * kWord};
    case OpKind::kExpertGather:
      return {s.matrix, s.matrix * (Each(op, 0) + Each(op, 3)) + s.rows * kWord};
    case OpKind::kExpertCombine:
      return {2 * pairs * s.cols,
              (pairs * Each(op, 0) + s.rows * Each(op, 3)) * s.cols + 2 * pairs * kWord};
    case OpKind::kExpertDots:
      return {2 * pairs * s.cols,
              (pairs * Each(op, 1) + s.rows * Each(op, 0)) * s.cols + 2 * pairs * kWord};
    default:  // kGroupedGemm: of all rows, and each expert's weights once
      break;
  }
  const double weights =
      op.trans_a ? s.output_passes * s.matrix * Each(op, 3) : s.inner * s.cols * Each(op, 1);
  const double rows = op.trans_a ? s.inner * (s.rows * Each(op, 0) + s.cols * Each(op, 1))
                                 : s.rows * (s.inner * Each(op, 0) + s.cols * Each(op, 3));
  return {2 * s.rows * s.cols * s.inner, rows + experts * weights};
}

// Parameters and moments are read and written, the gradient read, a shorter copy written.
OpWork UpdateWork(const Op& op, const Sizes& s) {
  const bool adam = op.kind == OpKind::kAdamW;
  const NumberFormat copy = op.formats[adam ? 9 : 4];
  const double moments = adam ? 4 * static_cast<double>(LayoutOf(op.format).bits) / 8 : 0;
  const double each =
      2 * Each(op, 0) + Each(op, 1) + moments + (copy == NumberFormat::kFp32 ? 0 : BytesEach(copy));
  return {(adam ? 14 : 4) * s.elements, each * s.elements};
}

// Numbers of the long side, and what they are in the other format.
OpWork QuantizeWork(const Op& op, const Sizes& s) {
  const std::int64_t pieces = op.shape.rows;
  const double bytes =
      pieces == 0 ? 0
                  : static_cast<double>(pieces) *
                        static_cast<double>(BytesIn(op.format, op.shape.elements / pieces));
  return {2 * s.elements, s.elements * Each(op, op.kind == OpKind::kQuantize ? 0 : 1) + bytes};
}

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

OpWork WorkOf(const Op& op) {
  const Sizes s(op);
  switch (op.kind) {
    case OpKind::kGemm:
      return GemmWork(op, s);
    case OpKind::kBiasGrad:
      return {s.matrix, s.matrix * Each(op, 0) + s.output_passes * s.cols * Each(op, 1)};
    case OpKind::kEmbeddingForward:
    case OpKind::kEmbeddingBackward:
      return EmbeddingWork(op, s);
    case OpKind::kNormForward:
    case OpKind::kNormBackwardInput:
    case OpKind::kNormBackwardWeight:
      return NormWork(op, s);
    case OpKind::kHeadNormForward:
    case OpKind::kHeadNormBackwardInput:
    case OpKind::kHeadNormBackwardWeight:
      return HeadNormWork(op, s);
    case OpKind::kRope:
      return RopeWork(op);
    case OpKind::kAttentionForward:  // qkv -> out, lse
      return AttentionWork(op, true, Each(op, 0), Each(op, 1));
    case OpKind::kAttentionBackward:  // qkv, out, dout, lse -> dqkv
      return AttentionWork(op, false, Each(op, 0) + Each(op, 4), Each(op, 1) + Each(op, 3));
    case OpKind::kStandardAttentionForward:
    case OpKind::kStandardAttentionBackward:
      return StandardAttentionWork(op);
    case OpKind::kDropout:
    case OpKind::kDropoutMask:
    case OpKind::kDropoutBackward:
      return DropoutWork(op, s);
    case OpKind::kAttentionPartForward:
    case OpKind::kAttentionPartBackward:
      return AttentionPartWork(op);
    case OpKind::kKeyColumns:
    case OpKind::kHeadParts:
      return CopyWork(op);
    case OpKind::kSplitColumns:
    case OpKind::kLatentHeads:
      return LatentWork(op);
    case OpKind::kSinkForward:
    case OpKind::kSinkBackward:
      return SinkWork(op);
    case OpKind::kShiftTargets:
      return {0, 2 * s.rows * kWord};
    case OpKind::kExpertBias:
      return {s.matrix, 2 * s.matrix * Each(op, 0) + op.shape.experts * s.cols * Each(op, 1)};
    case OpKind::kExpertBiasGrad:
      return {s.matrix,
              s.matrix * Each(op, 0) + s.output_passes * op.shape.experts * s.cols * Each(op, 2)};
    case OpKind::kGeluForward:
    case OpKind::kGeluBackward:
    case OpKind::kSwigluForward:
    case OpKind::kSwigluBackward:
      return ActivationWork(op, s);
    case OpKind::kAdd:
      return {s.matrix, s.matrix * (Each(op, 0) + Each(op, 1) + Each(op, 3))};
    case OpKind::kSoftcap:
      return {6 * s.elements, 2 * s.elements * Each(op, 0)};
    case OpKind::kAddNormForward:  // a, b -> sum, y
      return {(op.rms ? 5 : 9) * s.matrix,
              s.matrix * (Each(op, 0) + Each(op, 1) + Each(op, 5) + Each(op, 6)) +
                  s.vectors * (s.cols * Each(op, 3) + s.rows * Each(op, 8))};
    case OpKind::kCrossEntropyForward:
    case OpKind::kCrossEntropyBackward:
    case OpKind::kVocabMax:
    case OpKind::kVocabSums:
    case OpKind::kVocabLoss:
      return CrossEntropyWork(op, s);
    case OpKind::kRoute:
    case OpKind::kRouteBackward:
    case OpKind::kExpertGather:
    case OpKind::kExpertCombine:
    case OpKind::kExpertDots:
    case OpKind::kGroupedGemm:
      return ExpertWork(op, s);
    case OpKind::kSquaredNorm:
      return {2 * s.elements, s.elements * Each(op, 0)};
    case OpKind::kAdamW:
    case OpKind::kSgd:
      return UpdateWork(op, s);
    case OpKind::kAdamWAmend:  // where there is nothing to amend
    case OpKind::kSgdAmend:
      return {2, 2 * kWord};
    case OpKind::kCountNotFinite:
      return {s.elements, s.elements * Each(op, 0)};
    case OpKind::kCountSkipped:
      return {1, 3 * kWord};
    case OpKind::kQuantize:  // once for the largest of each block, once to convert
    case OpKind::kDequantize:
      return QuantizeWork(op, s);
    case OpKind::kOpaque:
      return {};
    case OpKind::kFill:
    case OpKind::kAllReduce:
    case OpKind::kReduceScatter:
    case OpKind::kAllGather:
    case OpKind::kAllToAll:
    case OpKind::kAllToAllV:
    case OpKind::kRotate:
    case OpKind::kSend:
    case OpKind::kRecv:
    case OpKind::kCopy:
    case OpKind::kLoadBatch:
    case OpKind::kHostRead:
    case OpKind::kReadCounts:
      return {0, s.elements * Each(op, 0)};
  }
  FT_CHECK(false);
  return {};
}

}  // namespace foretrain
