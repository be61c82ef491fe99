#include "sim/program/attention_pairs.h"

#include <algorithm>

#include "sim/program/blocks/context_parallel.h"

namespace foretrain {
namespace {

// Of queries i and keys j, both in [0, chunk): those with i - j <= distance.
double PairsUpTo(std::int64_t chunk, std::int64_t distance) {
  const auto all = static_cast<double>(chunk);
  if (distance <= -chunk) return 0;
  if (distance >= chunk - 1) return all * all;
  const auto side = static_cast<double>(distance < 0 ? chunk + distance : chunk - 1 - distance);
  const double triangle = side * (side + 1) / 2;
  return distance < 0 ? triangle : all * all - triangle;
}

// Pairs of a ring's turn, of all ranks together: chunks of rank r against those of rank r - turn.
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

}  // namespace

double PairsOfSequence(std::int64_t sequence, std::int64_t window) {
  const auto tokens = static_cast<double>(sequence);
  if (window == 0 || window >= sequence) return tokens * (tokens + 1) / 2;
  const auto seen = static_cast<double>(window);
  return seen * (seen + 1) / 2 + (tokens - seen) * seen;
}

// Each of cp ranks has chunks r and 2 cp - 1 - r of 2 cp, c = sequence / 2 tokens each: of S = 2 cp
// c tokens c (S + 1) pairs over all keys; c (2 c + 1) over its own, 2 c^2 over another's. All
// queries over all keys: S (S + 1) / 2.
double PairsOfPart(const OpShape& shape) {
  const auto share = static_cast<double>(shape.sequence);
  const std::int64_t local = shape.batch * shape.sequence;
  const std::int64_t whole = shape.sequence * shape.cp;
  if (shape.rows > local) return PairsOfSequence(whole, shape.window);
  if (shape.inner > local) return PairsOfSequence(whole, shape.window) / shape.cp;
  if (shape.window > 0) return PairsOfTurn(shape) / shape.cp;
  return shape.turn == 0 ? share * (share + 1) / 2 : share * share / 2;
}

}  // namespace foretrain
