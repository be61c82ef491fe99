// Determines which ops have surely ended when an op starts, from queue order and edges. One vector
// clock per op (Fidge 1988, Mattern 1989), with queues as the processes. Leaves out the order that
// peers and the issuing host add, so that what it calls ordered is ordered in every executor.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/program/link/step.h"

namespace foretrain {

// Latest op of each lane, as a number counted through consecutive steps (step * ops + op); -1 if
// none.
using LaneOps = std::array<std::int32_t, kQueueCount>;
inline constexpr LaneOps kNoOps = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};

// Begins the ops of `steps` consecutive steps in order of their numbers. Join and
// LatestUncovered refer to the op begun last. Memory: 4 bytes per op and lane.
class VectorClocks {
 public:
  VectorClocks(const FlatStep& step, int steps);

  // Begins the next op, which follows the one before it on its queue.
  void Begin();

  // Records that the op begun last waits for the end of `from`, an earlier op.
  void Join(std::int32_t from);

  // The latest of `ops` on another queue that may not have ended when the op begun last starts; -1
  // if none.
  std::int32_t LatestUncovered(const LaneOps& ops) const;

 private:
  std::size_t At(std::int32_t op) const { return static_cast<std::size_t>(op) * lanes_; }
  std::uint8_t LaneOf(std::int32_t op) const {
    const std::int32_t ops = step_.Ops();
    while (op >= ops) op -= ops;
    return step_.LaneOf(op);
  }

  const FlatStep& step_;
  std::size_t lanes_;
  std::vector<std::int32_t> clocks_;  // by op and lane
  std::int32_t now_ = -1;
  LaneOps last_ = kNoOps;  // latest op begun on each lane
};

}  // namespace foretrain
