#include "sim/program/ops/attention_work.h"

#include <algorithm>

#include "sim/program/blocks/layer/context_parallel.h"
#include "sim/program/ops/op_kinds.h"

namespace foretrain {
namespace {

// Pairs of a query i and a key j, both in [0, chunk), with i - j <= distance. The pairs form a
// triangle or, for a distance past the diagonal, the square less a triangle.
double PairsUpTo(std::int64_t chunk, std::int64_t distance) {
  const auto all = static_cast<double>(chunk);
  if (distance <= -chunk) return 0;
  if (distance >= chunk - 1) return all * all;
  const auto side = static_cast<double>(distance < 0 ? chunk + distance : chunk - 1 - distance);
  const double triangle = side * (side + 1) / 2;
  return distance < 0 ? triangle : all * all - triangle;
}

// Pairs that all ranks together compute in one turn of the ring: the chunks of rank r against those
// of rank r - turn. A pair is seen if its distance is in [0, window), hence the difference of two
// counts.
double PairsOfTurn(const OpShape& shape) {
  const std::int64_t sequence = shape.sequence * shape.cp;
  const std::int64_t chunk = shape.sequence / 2;
  double sum = 0;
  for (int rank = 0; rank < shape.cp; ++rank) {
    const auto keys = ChunkPositions(sequence, shape.cp, (rank - shape.turn + shape.cp) % shape.cp);
    for (const std::int64_t query : ChunkPositions(sequence, shape.cp, rank)) {
      for (const std::int64_t key : keys) {
        const std::int64_t ahead = query - key;
        sum += PairsUpTo(chunk, shape.window - 1 - ahead) - PairsUpTo(chunk, -1 - ahead);
      }
    }
  }
  return sum;
}

double Each(const Op& op, OperandName name) { return BytesEach(FormatOf(op, name)); }

// Products over the pairs of a query and a key, each of head_dim or of
// value_dim multiplications and additions: forward Q K^T and P V; backward Q K^T, dQ, dK and dP,
// dV. Leaves out the softmax: about 5 flop a pair, under 2 % from head_dim 64 on, and what bends
// scores.
double FlopOfPair(const OpShape& shape, bool forward) {
  const double keys = shape.head_dim, values = shape.ValueDim();
  return 2 * (forward ? keys + values : 3 * keys + 2 * values);
}

// `of_inputs`, `of_outputs`: bytes of a number, added up over the tensors of qkv's and the output's
// shape.
OpWork FlashWork(const Op& op, bool forward, double of_inputs, double of_outputs) {
  const OpShape& shape = op.shape;
  const double pairs = static_cast<double>(shape.batch) * shape.heads *
                       PairsOfSequence(shape.sequence, shape.window);
  const auto rows = static_cast<double>(shape.rows);
  const double heads = shape.heads;
  const double width = heads * shape.ValueDim();
  const double qkv_width = heads * shape.head_dim + static_cast<double>(shape.kv_heads) *
                                                        (shape.head_dim + shape.ValueDim());
  return {pairs * FlopOfPair(shape, forward),
          rows * (of_inputs * qkv_width + of_outputs * width + heads * Each(op, "lse"))};
}

// The products of flash attention, except that the backward does not make scores again. Matrices of
// scores are written and read by the softmax, the softmax by what follows it; with dropout its
// result and its mask are written and read as well.
OpWork StandardAttentionWork(const Op& op) {
  const OpShape& shape = op.shape;
  const bool forward = op.kind == OpKind::kStandardAttentionForward;
  const double each = Each(op, "qkv");
  const auto rows = static_cast<double>(shape.rows);
  const double heads = shape.heads;
  const double width = heads * shape.head_dim;
  const double qkv_width = (heads + 2.0 * shape.kv_heads) * shape.head_dim;
  const double scores = rows * heads * static_cast<double>(shape.sequence);
  const double pairs =
      static_cast<double>(shape.batch) * heads * PairsOfSequence(shape.sequence, shape.window);
  const bool drops = op.dropout > 0;
  const double product = 2 * pairs * shape.head_dim;
  if (forward && shape.inner == 0) {
    return {product, rows * each * qkv_width + scores * ((drops ? 5 : 3) * each + (drops ? 1 : 0))};
  }
  if (forward) {
    return {2 * product, rows * each * (qkv_width + width) +
                             scores * ((drops ? 6 : 4) * each + (drops ? 1 : 0))};
  }
  // Weights are read for the values' gradient and for the softmax's; gradients of scores are
  // written, read and written by the softmax's, and read by two products; with dropout in between
  // once more.
  return {4 * product, rows * each * (2 * qkv_width + width) +
                           scores * ((drops ? 9 : 7) * each + (drops ? 1 : 0))};
}

// A part that adds to earlier ones reads what it adds to: out and lse, or dq.
OpWork AttentionPartWork(const Op& op) {
  const OpShape& shape = op.shape;
  const bool forward = op.kind == OpKind::kAttentionPartForward;
  const auto samples = static_cast<double>(std::max<std::int64_t>(1, shape.batch));
  const double square =
      static_cast<double>(shape.rows) / samples * static_cast<double>(shape.inner) / samples;
  const double pairs = static_cast<double>(shape.batch) * shape.heads *
                       (op.bidirectional ? square : PairsOfPart(shape));
  const double heads = shape.heads;
  const double query = static_cast<double>(shape.rows) * heads * shape.head_dim;
  const double out = static_cast<double>(shape.rows) * heads * shape.ValueDim();
  const double keys = static_cast<double>(shape.inner) * shape.kv_heads *
                      (static_cast<double>(shape.head_dim) + shape.ValueDim());
  const double lse = static_cast<double>(shape.rows) * heads * Each(op, "lse");
  const double passes = op.accumulate ? 2 : 1;
  if (forward) {
    return {pairs * FlopOfPair(shape, true),
            query * Each(op, "q") + keys * Each(op, "kv") + passes * (out * Each(op, "out") + lse)};
  }
  return {pairs * FlopOfPair(shape, false), query * (Each(op, "q") + passes * Each(op, "dq")) +
                                                out * (Each(op, "out") + Each(op, "dout")) +
                                                keys * (Each(op, "kv") + Each(op, "dkv")) + lse};
}

}  // namespace

double PairsOfSequence(std::int64_t sequence, std::int64_t window) {
  const auto tokens = static_cast<double>(sequence);
  if (window == 0 || window >= sequence) return tokens * (tokens + 1) / 2;
  const auto seen = static_cast<double>(window);
  return seen * (seen + 1) / 2 + (tokens - seen) * seen;
}

// S = 2 cp c tokens are cut into 2 cp chunks of c = sequence / 2; rank r has chunks r and 2 cp - 1
// - r. Its queries make c (S + 1) pairs with all keys, c (2 c + 1) with its own keys and 2 c^2 with
// another rank's. All queries make S (S + 1) / 2 pairs with all keys.
double PairsOfPart(const OpShape& shape) {
  const auto share = static_cast<double>(shape.sequence);
  const std::int64_t local = shape.batch * shape.sequence;
  const std::int64_t whole = shape.sequence * shape.cp;
  if (shape.rows > local) return PairsOfSequence(whole, shape.window);
  if (shape.inner > local) return PairsOfSequence(whole, shape.window) / shape.cp;
  if (shape.window > 0) return PairsOfTurn(shape) / shape.cp;
  return shape.turn == 0 ? share * (share + 1) / 2 : share * share / 2;
}

OpWork AttentionWork(const Op& op) {
  switch (op.kind) {
    case OpKind::kAttentionForward:  // qkv -> out, lse
      return FlashWork(op, true, Each(op, "qkv"), Each(op, "out"));
    case OpKind::kAttentionBackward:  // qkv, out, dout, lse -> dqkv
      return FlashWork(op, false, Each(op, "qkv") + Each(op, "dqkv"),
                       Each(op, "out") + Each(op, "dout"));
    case OpKind::kAttentionPartForward:
    case OpKind::kAttentionPartBackward:
      return AttentionPartWork(op);
    default:
      return StandardAttentionWork(op);
  }
}

}  // namespace foretrain
