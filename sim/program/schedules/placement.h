// Which rank of a pipeline holds which stage of the model, and whom its micro-batches go to next.
//
//   one chunk      rank r holds stage r
//   interleaved    chunk c of rank r holds stage c p + r; the last rank's next is the first
//   V (ZB-V, DualPipeV)  chunk 0 holds stage r, chunk 1 stage 2p - 1 - r: down and back up
//   DualPipe       chunk 0 holds stage r of the way down, chunk 1 stage p - 1 - r of the way up;
//                  each stage lies on two ranks, and half of the micro-batches go either way
#pragma once

#include "sim/spec/plan.h"

namespace foretrain {

struct StagePlace {
  int rank = 0;
  int chunk = 0;

  bool operator==(const StagePlace&) const = default;
};

class Placement {
 public:
  // A valid schedule for p ranks; `vpp` chunks where it is interleaved.
  Placement(ScheduleKind schedule, int p, int vpp);
  explicit Placement(const Plan& plan) : Placement(plan.schedule, plan.pp, plan.vpp) {}

  int stages() const { return stages_; }          // that the model is cut into
  int chunks() const { return chunks_; }          // that a rank holds
  int directions() const { return directions_; }  // 2 for DualPipe
  // Chunks that a micro-batch passes on a rank: a rank's share of its time.
  int ChunksOfShare() const { return chunks_ / directions_; }

  int StageOf(int rank, int chunk) const;
  // Direction in which a chunk's micro-batches go: 0, or 1 for DualPipe's way up.
  int DirectionOf(int chunk) const { return directions_ == 2 ? chunk : 0; }
  StagePlace PlaceOf(int stage, int direction) const;

  // Of `m` micro-batches, the first of the direction and how many go that way.
  int FirstMicroBatch(int direction, int m) const { return direction * (m / 2); }
  int MicroBatches(int direction, int m) const {
    return directions_ == 1 ? m : (direction == 0 ? m / 2 : m - m / 2);
  }

  // Whether a transfer from `from` to `to`, which are neighbours on the ring of ranks and not the
  // same, goes to the next rank (last to first included) rather than to the previous one.
  bool GoesToNext(const StagePlace& from, const StagePlace& to) const;

 private:
  enum class Shape { kLine, kRounds, kV, kBothWays };
  Shape shape_;
  int p_;
  int chunks_;
  int directions_;
  int stages_;
};

}  // namespace foretrain
