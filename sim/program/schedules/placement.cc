#include "sim/program/schedules/placement.h"

#include "base/result.h"

namespace foretrain {

// The two-chunk schedules ignore vpp: their shape fixes the number of chunks and stages.
Placement::Placement(ScheduleKind schedule, int p, int vpp)
    : shape_(Shape::kLine), p_(p), chunks_(1), directions_(1), stages_(p) {
  switch (schedule) {
    case ScheduleKind::kInterleaved:
      shape_ = Shape::kRounds;
      chunks_ = vpp;
      stages_ = p * vpp;
      break;
    case ScheduleKind::kZbV:
    case ScheduleKind::kDualPipeV:
      shape_ = Shape::kV;
      chunks_ = 2;
      stages_ = 2 * p;
      break;
    case ScheduleKind::kDualPipe:
      shape_ = Shape::kBothWays;
      chunks_ = 2;
      directions_ = 2;
      break;
    default:
      break;
  }
}

// StageOf and PlaceOf are inverse to each other for each direction. Only kBothWays holds a stage on
// two ranks, so that PlaceOf needs the direction.
int Placement::StageOf(int rank, int chunk) const {
  FT_CHECK(rank >= 0 && rank < p_ && chunk >= 0 && chunk < chunks_);
  switch (shape_) {
    case Shape::kLine:
      return rank;
    case Shape::kRounds:
      return chunk * p_ + rank;
    case Shape::kV:
      return chunk == 0 ? rank : 2 * p_ - 1 - rank;
    case Shape::kBothWays:
      return chunk == 0 ? rank : p_ - 1 - rank;
  }
  return 0;
}

StagePlace Placement::PlaceOf(int stage, int direction) const {
  FT_CHECK(stage >= 0 && stage < stages_ && direction < directions_);
  switch (shape_) {
    case Shape::kLine:
      return {stage, 0};
    case Shape::kRounds:
      return {stage % p_, stage / p_};
    case Shape::kV:
      return stage < p_ ? StagePlace{stage, 0} : StagePlace{2 * p_ - 1 - stage, 1};
    case Shape::kBothWays:
      return direction == 0 ? StagePlace{stage, 0} : StagePlace{p_ - 1 - stage, 1};
  }
  return {};
}

bool Placement::GoesToNext(const StagePlace& from, const StagePlace& to) const {
  FT_CHECK(from.rank != to.rank);
  // With two ranks both neighbours are the same rank; interleaved rounds are told apart by the wrap
  // to the next chunk.
  if (shape_ == Shape::kRounds && to.chunk != from.chunk) return to.chunk > from.chunk;
  return to.rank > from.rank;
}

}  // namespace foretrain
