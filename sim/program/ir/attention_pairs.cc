#include "sim/program/ir/attention_pairs.h"

#include <algorithm>

#include "sim/program/blocks/layer/context_parallel.h"

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

}  // namespace foretrain
