#include "sim/config/schedule/placement.h"

#include "base/result.h"

namespace foretrain {
namespace {

// The two-chunk schedules ignore vpp: their shape fixes the number of chunks.
int ChunksOf(StageShape shape, int vpp) {
  if (shape == StageShape::kRounds) return vpp;
  return shape == StageShape::kLine ? 1 : 2;
}

}  // namespace

// Only kBothWays holds a stage on two ranks, so its model has as many stages as ranks.
Placement::Placement(StageShape shape, int p, int chunks)
    : shape_(shape),
      p_(p),
      chunks_(chunks),
      directions_(shape == StageShape::kBothWays ? 2 : 1),
      stages_(shape == StageShape::kBothWays ? p : p * chunks) {}

Placement::Placement(ScheduleKind schedule, int p, int vpp)
    : Placement(ShapeOf(schedule), p, ChunksOf(ShapeOf(schedule), vpp)) {}

// StageOf and PlaceOf are inverse to each other for each direction. Only kBothWays holds a stage on
// two ranks, so that PlaceOf needs the direction.
int Placement::StageOf(int rank, int chunk) const {
  FT_CHECK(rank >= 0 && rank < p_ && chunk >= 0 && chunk < chunks_);
  switch (shape_) {
    case StageShape::kLine:
      return rank;
    case StageShape::kRounds:
      return chunk * p_ + rank;
    case StageShape::kV:
      return chunk == 0 ? rank : 2 * p_ - 1 - rank;
    case StageShape::kBothWays:
      return chunk == 0 ? rank : p_ - 1 - rank;
  }
  return 0;
}

int Placement::ChunkOf(int rank, int stage) const {
  const int chunk = shape_ == StageShape::kRounds ? (stage - rank) / p_ : (stage == rank ? 0 : 1);
  FT_CHECK(StageOf(rank, chunk) == stage);
  return chunk;
}

StagePlace Placement::PlaceOf(int stage, int direction) const {
  FT_CHECK(stage >= 0 && stage < stages_ && direction < directions_);
  switch (shape_) {
    case StageShape::kLine:
      return {stage, 0};
    case StageShape::kRounds:
      return {stage % p_, stage / p_};
    case StageShape::kV:
      return stage < p_ ? StagePlace{stage, 0} : StagePlace{2 * p_ - 1 - stage, 1};
    case StageShape::kBothWays:
      return direction == 0 ? StagePlace{stage, 0} : StagePlace{p_ - 1 - stage, 1};
  }
  return {};
}

bool Placement::GoesToNext(const StagePlace& from, const StagePlace& to) const {
  FT_CHECK(from.rank != to.rank);
  // With two ranks both neighbours are the same rank; interleaved rounds are told apart by the wrap
  // to the next chunk.
  if (shape_ == StageShape::kRounds && to.chunk != from.chunk) return to.chunk > from.chunk;
  return to.rank > from.rank;
}

}  // namespace foretrain
