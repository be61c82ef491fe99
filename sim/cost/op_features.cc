#include "sim/cost/op_features.h"

#include <cmath>

namespace foretrain {
namespace {

OpFeatures GemmFeatures(const OpShape& shape) {
  const auto m = static_cast<double>(shape.rows);
  const auto n = static_cast<double>(shape.cols);
  const auto k = static_cast<double>(shape.inner);
  return {{std::log(m), std::log(n), std::log(k)}, {m * n * k, 1, n * k, m * k, m * n}, 3};
}

// Elements of a head, the mean of those of queries and keys and those of values over the products.
double HeadWidth(const Op& op) {
  const bool forward =
      op.kind == OpKind::kAttentionForward || op.kind == OpKind::kAttentionPartForward;
  const double keys = op.shape.head_dim, values = op.shape.ValueDim();
  return forward ? (keys + values) / 2 : (3 * keys + 2 * values) / 5;
}

// Products that the op's flop count.
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

// Of parts, and within a window: as whole attention of a sequence with as many pairs of a query and
// a key.
OpFeatures AttentionPairFeatures(const Op& op) {
  const OpShape& shape = op.shape;
  const OpWork work = WorkOf(op);
  const double gemms = GemmsOf(op);
  const double items = static_cast<double>(shape.batch) * shape.heads;
  const double width = HeadWidth(op), pairs = work.flop / (gemms * 2 * items * width);
  return {
      {std::log(2 * pairs) / 2, std::log(items), std::log(width)}, {work.flop, 1, work.bytes}, 3};
}

OpFeatures AttentionFeatures(const Op& op) {
  if (op.shape.window > 0) return AttentionPairFeatures(op);
  const OpWork work = WorkOf(op);
  return {{std::log(static_cast<double>(op.shape.sequence)),
           std::log(static_cast<double>(op.shape.batch) * op.shape.heads), std::log(HeadWidth(op))},
          {work.flop, 1, work.bytes},
          3};
}

}  // namespace

OpFeatures FeaturesOf(const Op& op) {
  if (IsGemm(op.kind)) return GemmFeatures(op.shape);
  if (op.kind >= OpKind::kAttentionForward && op.kind <= OpKind::kStandardAttentionBackward) {
    return AttentionFeatures(op);
  }
  if (op.kind == OpKind::kGroupedGemm) {
    const OpWork work = WorkOf(op);
    return {{std::log(work.flop), std::log(work.bytes)}, {work.flop, 1, work.bytes}, 2};
  }
  if (op.kind == OpKind::kAttentionPartForward || op.kind == OpKind::kAttentionPartBackward) {
    return AttentionPairFeatures(op);
  }
  const double bytes = WorkOf(op).bytes;
  return {{std::log(bytes)}, {bytes, 1}, 1};
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
