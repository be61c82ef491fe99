// Arithmetic and traffic of each kind of op (op.h: OpWork).
#include <cstddef>

#include "base/result.h"
#include "sim/program/attention_work.h"
#include "sim/program/op.h"

namespace foretrain {
namespace {

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

// Bytes of a number of a product's operand, with its part of the scales where blocks have one each:
// of weights, which are `b` but where a weight's gradient is made, 128 x 128.
double EachScaled(const Op& op, std::size_t i) {
  if (op.format != NumberFormat::kFp8Block || !IsCodes(op.formats[i])) return Each(op, i);
  const bool weight = i == 1 && !op.trans_a;
  return BytesEach(weight ? NumberFormat::kFp8Tile : NumberFormat::kFp8Block);
}

OpWork GemmWork(const Op& op, const Sizes& s) {
  double bytes = s.rows * s.inner * EachScaled(op, 0) + s.inner * s.cols * EachScaled(op, 1) +
                 s.output_passes * s.matrix * Each(op, 3);
  const bool has_matrix =
      op.kind == OpKind::kGemmActivationKept || op.kind == OpKind::kGemmActivationBackward;
  if (has_matrix) bytes += s.matrix * Each(op, 4);
  if (op.kind == OpKind::kGemmBiasGrad) bytes += s.output_passes * s.rows * Each(op, 4);
  return {2 * s.rows * s.cols * s.inner, bytes};
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
  const double a = EachScaled(op, 0), b = EachScaled(op, 1);
  const double weights =
      op.trans_a ? s.output_passes * s.matrix * Each(op, 3) : s.inner * s.cols * b;
  const double rows = op.trans_a ? s.inner * (s.rows * a + s.cols * b)
                                 : s.rows * (s.inner * a + s.cols * Each(op, 3));
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

// Numbers of the long side, and what they are in the other format. Of rows that follow counts those
// that are expected (`inner`, of `cols` numbers), not all for which there is room.
OpWork QuantizeWork(const Op& op) {
  const std::int64_t pieces = op.shape.rows;
  const std::int64_t all =
      op.shape.members > 0 ? op.shape.inner * op.shape.cols : op.shape.elements;
  const double bytes = pieces == 0 ? 0
                                   : static_cast<double>(pieces) *
                                         static_cast<double>(BytesIn(op.format, all / pieces));
  const auto elements = static_cast<double>(all);
  if (HasScalesApart(op.format) && !IsCodes(op.formats[1])) {  // scales alone
    return {elements, elements * Each(op, 0) + kWord};
  }
  return {2 * elements, elements * Each(op, op.kind == OpKind::kQuantize ? 0 : 1) + bytes};
}

// Gates read and write each number once; a backward makes a dot product beside. Counts of choices
// are looked up and written, biases likewise.
OpWork GateWork(const Op& op, const Sizes& s) {
  const double scores = s.rows * kWord;
  if (op.kind == OpKind::kGateForward) {
    return {s.matrix, s.matrix * (Each(op, 0) + s.output_passes * Each(op, 2)) + scores};
  }
  return {3 * s.matrix, s.matrix * (Each(op, 0) + Each(op, 1) + Each(op, 3)) + 2 * scores};
}

}  // namespace

OpWork WorkOf(const Op& op) {
  const Sizes s(op);
  switch (op.kind) {
    case OpKind::kGemm:
    case OpKind::kGemmActivation:
    case OpKind::kGemmActivationKept:
    case OpKind::kGemmActivationBackward:
    case OpKind::kGemmBiasGrad:
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
    case OpKind::kAttentionForward:
    case OpKind::kAttentionBackward:
    case OpKind::kStandardAttentionForward:
    case OpKind::kStandardAttentionBackward:
    case OpKind::kAttentionPartForward:
    case OpKind::kAttentionPartBackward:
      return AttentionWork(op);
    case OpKind::kDropout:
    case OpKind::kDropoutMask:
    case OpKind::kDropoutBackward:
      return DropoutWork(op, s);
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
    case OpKind::kGateForward:
    case OpKind::kGateBackward:
      return GateWork(op, s);
    case OpKind::kCountChoices:
      return {s.rows * op.shape.per_token,
              (s.rows * op.shape.per_token + 2.0 * op.shape.experts) * kWord};
    case OpKind::kBalanceBias:
      return {3.0 * op.shape.experts, 4.0 * op.shape.experts * kWord};
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
    case OpKind::kScaleLoss:
      return {2, 5 * kWord};
    case OpKind::kQuantize:  // once for the largest of each block, once to convert
    case OpKind::kDequantize:
      return QuantizeWork(op);
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
