#include "sim/cost/kernels/op_features.h"
#include "sim/program/ops/op_work.h"

#include <cmath>

namespace foretrain {
namespace {

// Sizes enter by their logarithms, in which kernels' efficiency is smooth. The terms are the work,
// the kernel's fixed time, and the bytes of each operand.
OpFeatures GemmFeatures(const OpShape& shape) {
  const auto m = static_cast<double>(shape.rows);
  const auto n = static_cast<double>(shape.cols);
  const auto k = static_cast<double>(shape.inner);
  return {{std::log(m), std::log(n), std::log(k)}, {m * n * k, 1, n * k, m * k, m * n}, 3};
}

// Mean head width over the products: those on keys and those on values.
double HeadWidth(const Op& op) {
  const bool forward =
      op.kind == OpKind::kAttentionForward || op.kind == OpKind::kAttentionPartForward;
  const double keys = op.shape.head_dim, values = op.shape.ValueDim();
  return forward ? (keys + values) / 2 : (3 * keys + 2 * values) / 5;
}

// Number of products that the op's FLOP count.
double GemmsOf(const Op& op) {
  switch (op.kind) {
    case OpKind::kStandardAttentionForward:
      return op.shape.inner == 0 ? 1 : 2;
    case OpKind::kStandardAttentionBackward:
      return 4;
    case OpKind::kAttentionBackward:
    case OpKind::kAttentionPartBackward:
      return 5;
    default:
      return 2;
  }
}

// Parts, and attention with a window, count as whole attention over a sequence with the same number
// of query-key pairs.
OpFeatures AttentionPairFeatures(const Op& op) {
  const OpShape& shape = op.shape;
  const OpWork work = WorkOf(op);
  const double gemms = GemmsOf(op);
  const double items = static_cast<double>(shape.batch) * shape.heads;
  const double width = HeadWidth(op), pairs = work.flop / (gemms * 2 * items * width);
  return {
      {std::log(2 * pairs) / 2, std::log(items), std::log(width)}, {work.flop, 1, work.bytes}, 3};
}

// Without a window, whole attention is identified by its sequence length.
OpFeatures AttentionFeatures(const Op& op) {
  if (op.shape.window > 0) return AttentionPairFeatures(op);
  const OpWork work = WorkOf(op);
  return {{std::log(static_cast<double>(op.shape.sequence)),
           std::log(static_cast<double>(op.shape.batch) * op.shape.heads), std::log(HeadWidth(op))},
          {work.flop, 1, work.bytes},
          3};
}

}  // namespace

// Grouped products have no single shape, because counts per expert vary. Work and bytes replace it.
// Ops bound by memory need only their bytes.
OpFeatures FeaturesOf(const Op& op) {
  if (IsGemm(op.kind)) return GemmFeatures(op.shape);
  const OpFamily family = FamilyOf(op.kind);
  if (family == OpFamily::kAttention) return AttentionFeatures(op);
  if (family == OpFamily::kAttentionPart) return AttentionPairFeatures(op);
  const OpWork work = WorkOf(op);
  if (family == OpFamily::kGroupedGemm) {
    return {{std::log(work.flop), std::log(work.bytes)}, {work.flop, 1, work.bytes}, 2};
  }
  return {{std::log(work.bytes)}, {work.bytes, 1}, 1};
}

int VariantOf(const Op& op) {
  return (op.accumulate ? kAccumulateBit : 0) + (op.trans_a ? 2 : 0) + (op.trans_b ? 4 : 0) +
         (op.rms ? 8 : 0) + 16 * static_cast<int>(op.from) + 64 * static_cast<int>(op.to) +
         256 * static_cast<int>(op.format);
}

Op OpOf(const ProfilePoint& point) {
  Op op;
  op.kind = point.kind;
  op.shape = point.shape;
  op.accumulate = point.accumulate;
  op.trans_a = point.trans_a;
  op.trans_b = point.trans_b;
  op.rms = point.rms;
  op.format = point.format;
  op.formats = point.formats;
  op.from = point.from;
  op.to = point.to;
  return op;
}

}  // namespace foretrain
