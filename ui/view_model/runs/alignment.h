// Aligns the two runs in time: which moments are drawn at the same x.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "ui/view_model/runs/sides.h"

namespace foretrain::ui {

enum class Alignment : std::uint8_t {
  kStepStart,   // the two steps start together
  kMicroBatch,  // the first ops of a micro-batch on one rank start together
  kSelectedOp,  // one op and its counterpart start together, which removes the drift up to it
  kWallClock,   // both runs start together
  kWarp,        // every forecast op starts with its counterpart; only lengths differ
};
inline constexpr int kAlignmentCount = 5;

// "aligned at step start", for display.
std::string_view Name(Alignment alignment);

// The op that kSelectedOp aligns at, or whose micro-batch kMicroBatch aligns at.
struct Anchor {
  int rank = 0;  // of the lane
  OpId op = kNoOp;

  bool operator==(const Anchor&) const = default;
};

// Sets the sides' offsets. Without an anchor kMicroBatch uses micro-batch 0 on the first rank. If a
// run lacks the op, and for kWarp, the steps start together. `pairs` are those of `sides`, sorted
// by (rank, op). O(spans of one rank).
void AlignSides(Alignment alignment, const std::optional<Anchor>& anchor,
                std::span<const PairedOp> pairs, SidePair& sides);

// The forecast with each span of the chosen step moved to the start of its counterpart, relative to
// the steps' starts. An op without counterpart moves like the op before it on its queue. Memory
// samples are dropped, because they belong to the forecast's own times. O(n log n).
std::unique_ptr<const RunView> Warped(const SidePair& sides, std::span<const PairedOp> pairs);

}  // namespace foretrain::ui
