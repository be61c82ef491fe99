// Maps the stages of a model to pipeline ranks, and each transfer to the next or the previous rank.
//
//   one chunk      rank r holds stage r
//   interleaved    chunk c of rank r holds stage c p + r; the last rank's next is the first
//   V (ZB-V, DualPipeV)  chunk 0 holds stage r, chunk 1 stage 2p - 1 - r: down and back up
//   DualPipe       chunk 0 holds stage r of the way down, chunk 1 stage p - 1 - r of the way up;
//                  each stage lies on two ranks, and half of the micro-batches go either way
#pragma once

#include "sim/config/plan/plan.h"
#include "sim/config/schedule/slot_order.h"

namespace foretrain {

struct StagePlace {
  int rank = 0;
  int chunk = 0;

  bool operator==(const StagePlace&) const = default;
};

class Placement {
 public:
  // `chunks` of a rank: any number for kRounds, two for kV and kBothWays, else one.
  Placement(StageShape shape, int p, int chunks);
  // Requires a valid schedule for p ranks, not kCustom; `vpp` counts only for the interleaved one.
  Placement(ScheduleKind schedule, int p, int vpp);
  explicit Placement(const Plan& plan) : Placement(plan.Shape(), plan.pp, plan.Chunks()) {}

  int stages() const { return stages_; }          // the model is cut into so many
  int chunks() const { return chunks_; }          // per rank
  int directions() const { return directions_; }  // 2 for DualPipe
  // Chunks that one micro-batch passes on a rank: its share of the rank's time divides by this.
  int ChunksOfShare() const { return chunks_ / directions_; }

  int StageOf(int rank, int chunk) const;
  // Chunk of the rank that holds the stage, which it must hold.
  int ChunkOf(int rank, int stage) const;
  // Direction of a chunk's micro-batches: 0, or 1 for DualPipe's way up.
  int DirectionOf(int chunk) const { return directions_ == 2 ? chunk : 0; }
  StagePlace PlaceOf(int stage, int direction) const;

  // First micro-batch of a direction out of `m`, and the number that go that way.
  int FirstMicroBatch(int direction, int m) const { return direction * (m / 2); }
  int MicroBatches(int direction, int m) const {
    return directions_ == 1 ? m : (direction == 0 ? m / 2 : m - m / 2);
  }

  // Whether a transfer goes to the next rank (from the last to the first included) rather than to
  // the previous one. `from` and `to` must be different neighbours on the ring of ranks.
  bool GoesToNext(const StagePlace& from, const StagePlace& to) const;

 private:
  StageShape shape_;
  int p_;
  int chunks_;
  int directions_;
  int stages_;
};

}  // namespace foretrain
