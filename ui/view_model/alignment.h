// Which moments of the two runs lie below one another. Leaves out what is drawn of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "ui/view_model/sides.h"

namespace foretrain::ui {

enum class Alignment : std::uint8_t {
  kStepStart,   // the two steps begin together
  kMicroBatch,  // a micro-batch's first ops of one rank do
  kSelectedOp,  // one op and its twin do: the drift up to it is taken out
  kWallClock,   // the two runs do
  kWarp,        // every op of the forecast does with its twin: lengths alone differ
};
inline constexpr int kAlignmentCount = 5;

// "aligned at step start", as chips show it.
std::string_view Name(Alignment alignment);

// The op that kSelectedOp aligns at; kMicroBatch, at the start of its micro-batch.
struct Anchor {
  int rank = 0;  // of the lane
  OpId op = kNoOp;

  bool operator==(const Anchor&) const = default;
};

// Sets the sides' offsets. Without an anchor kMicroBatch takes micro-batch 0 on the first rank;
// where either run has no such op, the steps begin together, as they do for kWarp. `pairs`: of
// `sides`, sorted by (rank, op). O(spans of one rank).
void AlignSides(Alignment alignment, const std::optional<Anchor>& anchor,
           std::span<const PairedOp> pairs, SidePair& sides);

// The forecast with each span of the chosen step moved to where its op's twin started, as far as
// the steps' starts agree; an op without one moves as the op before it on its queue. Memory samples
// are left out: they belong to the forecast's own times. O(n log n).
std::unique_ptr<const RunView> Warped(const SidePair& sides, std::span<const PairedOp> pairs);

}  // namespace foretrain::ui
