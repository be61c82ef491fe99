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
    "attention_part_forward",
    "attention_part_backward",
    "key_columns",
    "head_parts",
    "gelu_forward",
    "gelu_backward",
    "swiglu_forward",
    "swiglu_backward",
    "add",
    "softcap",
    "add_norm_forward",
    "cross_entropy_forward",
    "cross_entropy_backward",
    "vocab_max",
    "vocab_sums",
    "vocab_loss",
    "route",
    "route_backward",
    "expert_gather",
    "expert_combine",
    "expert_dots",
    "grouped_gemm",
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

constexpr double kElementBytes = 4;  // fp32, i32

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

OpWork GemmWork(const Sizes& s) {
  return {2 * s.rows * s.cols * s.inner,
          s.rows * s.inner + s.inner * s.cols + s.output_passes * s.matrix};
}

// `gemms` products over the pairs of a query and a key (attention_pairs.h), each of head_dim
// multiplications and additions. Leaves out the softmax: about 5 flop a pair, under 2 %
// from head_dim 64 on. `outputs`: tensors of the output's shape; `inputs`: of qkv's.
OpWork AttentionWork(const Op& op, double gemms, double inputs, double outputs) {
  const OpShape& shape = op.shape;
  const double pairs = static_cast<double>(shape.batch) * shape.heads *
                       PairsOfSequence(shape.sequence, shape.window);
  const auto rows = static_cast<double>(shape.rows);
  const double heads = shape.heads;
  const double width = heads * shape.head_dim;
  const double qkv_width = (heads + 2.0 * shape.kv_heads) * shape.head_dim;
  return {gemms * 2 * pairs * shape.head_dim,
          rows * (inputs * qkv_width + outputs * width + heads)};
}

// A part that adds to earlier ones reads what it adds to: out and lse, or dq.
OpWork AttentionPartWork(const Op& op) {
  const OpShape& shape = op.shape;
  const bool forward = op.kind == OpKind::kAttentionPartForward;
  const double pairs = static_cast<double>(shape.batch) * shape.heads * PairsOfPart(shape);
  const double heads = shape.heads;
  const double query = static_cast<double>(shape.rows) * heads * shape.head_dim;
  const double keys = static_cast<double>(shape.inner) * 2.0 * shape.kv_heads * shape.head_dim;
  const double lse = static_cast<double>(shape.rows) * heads;
  const double passes = op.accumulate ? 2 : 1;
  if (forward) return {4 * pairs * shape.head_dim, query + keys + passes * (query + lse)};
  return {10 * pairs * shape.head_dim, 3 * query + 2 * keys + lse + passes * query};
}

// What is copied is read and written.
OpWork CopyWork(const Op& op) {
  const double heads = op.kind == OpKind::kKeyColumns ? 0.0 : op.shape.heads;
  return {0, 2.0 * static_cast<double>(op.shape.rows) * (heads + 2.0 * op.shape.kv_heads) *
                 op.shape.head_dim};
}

// Query and key heads are read and written.
OpWork RopeWork(const Op& op) {
  const double rotated = static_cast<double>(op.shape.rows) *
                         (static_cast<double>(op.shape.heads) + op.shape.kv_heads) *
                         (op.shape.rotary > 0 ? op.shape.rotary : op.shape.head_dim);
  return {3 * rotated, 2 * rotated};
}

// Flops of the memory-bound kinds are counts of the multiplications, additions, divisions and
// exponentials of one element.
OpWork EmbeddingWork(const Op& op, const Sizes& s) {
  if (op.kind == OpKind::kEmbeddingForward) {  // the rows that are looked up, not the whole table
    return {s.matrix, s.rows + 2 * s.matrix};
  }
  // Rows that are added to; a table that starts at 0 is filled.
  return {s.matrix, s.rows + 3 * s.matrix + (op.accumulate ? 0 : s.vocab * s.cols)};
}

OpWork NormWork(const Op& op, const Sizes& s) {
  if (op.kind == OpKind::kNormForward) {
    return {(op.rms ? 4 : 8) * s.matrix, 2 * s.matrix + s.vectors * (s.cols + s.rows)};
  }
  if (op.kind == OpKind::kNormBackwardInput) {  // with the residual's gradient
    return {(op.rms ? 8 : 11) * s.matrix, 4 * s.matrix + s.cols + s.vectors * s.rows};
  }
  return {(op.rms ? 3 : 5) * s.matrix,
          2 * s.matrix + s.vectors * (s.rows + s.output_passes * s.cols)};
}

// Heads of q and k, each a row of a norm whose weight is one of two.
OpWork HeadNormWork(const Op& op, const Sizes& s) {
  const double rows = s.rows * (static_cast<double>(op.shape.heads) + op.shape.kv_heads);
  const double matrix = rows * op.shape.head_dim, weights = 2.0 * op.shape.head_dim;
  if (op.kind == OpKind::kHeadNormForward) return {4 * matrix, 3 * matrix + rows + weights};
  if (op.kind == OpKind::kHeadNormBackwardInput) return {8 * matrix, 4 * matrix + rows + weights};
  return {3 * matrix, 2 * matrix + rows + s.output_passes * weights};
}

OpWork ActivationWork(const Op& op, const Sizes& s) {
  if (op.kind == OpKind::kGeluForward) return {9 * s.matrix, 2 * s.matrix};
  if (op.kind == OpKind::kGeluBackward) return {16 * s.matrix, 3 * s.matrix};
  if (op.kind == OpKind::kSwigluForward) return {5 * s.matrix, 3 * s.matrix};  // gate and up -> y
  return {11 * s.matrix, 5 * s.matrix};  // gate, up, dy -> both gradients
}

OpWork CrossEntropyWork(const Op& op, const Sizes& s) {
  const double logits = s.rows * s.vocab;
  if (op.kind == OpKind::kCrossEntropyForward) return {4 * logits, logits + 2 * s.rows};
  if (op.kind == OpKind::kVocabMax) return {logits, logits + s.rows};
  if (op.kind == OpKind::kVocabSums) return {3 * logits, logits + 4 * s.rows};
  if (op.kind == OpKind::kVocabLoss) return {4 * s.rows, 5 * s.rows};
  return {3 * logits, 2 * logits + 2 * s.rows};
}

// The choice compares each score once for each expert of the token. Rows of experts come and go
// once.
OpWork ExpertWork(const Op& op, const Sizes& s) {
  const double per_token = op.shape.per_token, experts = op.shape.experts;
  const double pairs = s.rows * per_token;
  switch (op.kind) {
    case OpKind::kRoute:
      return {(5 + per_token) * s.rows * experts,
              2 * s.rows * experts + 3 * pairs + s.elements + experts};
    case OpKind::kRouteBackward:
      return {6 * s.rows * experts, 2 * s.rows * experts + 3 * pairs + experts};
    case OpKind::kExpertGather:
      return {s.matrix, 2 * s.matrix + s.rows};
    case OpKind::kExpertCombine:
      return {2 * pairs * s.cols, (pairs + s.rows) * s.cols + 2 * pairs};
    case OpKind::kExpertDots:
      return {2 * pairs * s.cols, (pairs + s.rows) * s.cols + 2 * pairs};
    default:  // kGroupedGemm: of all rows, and each expert's weights once
      break;
  }
  const double weights = op.trans_a ? s.output_passes * s.matrix : s.inner * s.cols;
  const double rows = op.trans_a ? s.inner * (s.rows + s.cols) : s.rows * (s.inner + s.cols);
  return {2 * s.rows * s.cols * s.inner, rows + experts * weights};
}

// Bytes of a number in the format over those of fp32, without scales.
double BytesPerFloat(NumberFormat format) {
  if (format == NumberFormat::kFp32) return 1.0;
  return format == NumberFormat::kBf16 ? 0.5 : 0.25;
}

// The quantized side of kQuantize and kDequantize, in units of 4 bytes.
double QuantizedElements(const Op& op) {
  const std::int64_t pieces = op.shape.rows;
  if (pieces == 0) return 0;
  return static_cast<double>(pieces) *
         static_cast<double>(BytesIn(op.format, op.shape.elements / pieces)) / kElementBytes;
}

// flop, and *elements* moved.
OpWork ElementWork(const Op& op) {
  const Sizes s(op);
  switch (op.kind) {
    case OpKind::kGemm:
      return GemmWork(s);
    case OpKind::kBiasGrad:
      return {s.matrix, s.matrix + s.output_passes * s.cols};
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
    case OpKind::kAttentionForward:  // Q K^T, P V; qkv -> out, lse
      return AttentionWork(op, 2, 1, 1);
    case OpKind::kAttentionBackward:  // Q K^T, dP, dQ, dK, dV; qkv, out, dout, lse -> dqkv
      return AttentionWork(op, 5, 2, 2);
    case OpKind::kAttentionPartForward:
    case OpKind::kAttentionPartBackward:
      return AttentionPartWork(op);
    case OpKind::kKeyColumns:
    case OpKind::kHeadParts:
      return CopyWork(op);
    case OpKind::kGeluForward:
    case OpKind::kGeluBackward:
    case OpKind::kSwigluForward:
    case OpKind::kSwigluBackward:
      return ActivationWork(op, s);
    case OpKind::kAdd:
      return {s.matrix, 3 * s.matrix};
    case OpKind::kSoftcap:
      return {6 * s.elements, 2 * s.elements};
    case OpKind::kAddNormForward:  // a, b -> sum, y
      return {(op.rms ? 5 : 9) * s.matrix, 4 * s.matrix + s.vectors * (s.cols + s.rows)};
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
      return {2 * s.elements, s.elements};
    case OpKind::kAdamW:  // parameter and both moments are read and written, the gradient read
      return {14 * s.elements, (3 + 4 * BytesPerFloat(op.format)) * s.elements};
    case OpKind::kSgd:
      return {4 * s.elements, 3 * s.elements};
    case OpKind::kAdamWAmend:  // where there is nothing to amend
    case OpKind::kSgdAmend:
      return {2, 2};
    case OpKind::kCountNotFinite:
      return {s.elements, s.elements};
    case OpKind::kCountSkipped:
      return {1, 3};
    case OpKind::kQuantize:  // once for the largest of each block, once to convert
    case OpKind::kDequantize:
      return {2 * s.elements, s.elements + QuantizedElements(op)};
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
      return {0, s.elements};
  }
  FT_CHECK(false);
  return {};
}

}  // namespace

std::span<const Operand> OperandsOf(const Block& block, const Op& op) {
  const std::int64_t end = std::int64_t{op.first_operand} + op.operand_count;
  FT_CHECK(op.first_operand >= 0 && op.operand_count >= 0 &&
           end <= static_cast<std::int64_t>(block.operands.size()));
  return {block.operands.data() + op.first_operand, static_cast<std::size_t>(op.operand_count)};
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

OpWork WorkOf(const Op& op) {
  OpWork work = ElementWork(op);
  work.bytes *= kElementBytes;
  return work;
}

}  // namespace foretrain
