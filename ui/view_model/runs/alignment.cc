#include "ui/view_model/runs/alignment.h"

#include <algorithm>
#include <array>

namespace foretrain::ui {
namespace {

using Starts = std::array<std::optional<std::int64_t>, 2>;

// Start of a micro-batch on the rank of `side` that represents `rank`; `nullopt` if it has no
// spans.
std::optional<std::int64_t> StartOfMicroBatch(const SidePair& sides, Side side, int rank,
                                              int micro_batch) {
  const int own = sides.RankOn(side, rank);
  std::optional<std::int64_t> start;
  for (const Span& span : SpansOfRank(sides.TimelineOf(side), own)) {
    if (span.step != sides.Of(side).step || !IsValidId(span.op)) continue;
    if (span.op_class == OpClass::kHost) continue;
    const InstructionKey key = UnpackId(span.op);
    if (key.kind != InstructionKind::kBlock || key.micro_batch != micro_batch) continue;
    start = std::min(start.value_or(span.start_ns), span.start_ns);
  }
  return start;
}

// Start of the alignment moment on each side, in its own time. Empty if the alignment needs none or
// the anchor has no counterpart.
Starts StartsOf(Alignment alignment, const std::optional<Anchor>& anchor,
                std::span<const PairedOp> pairs, const SidePair& sides) {
  Starts starts;
  if (alignment == Alignment::kSelectedOp && anchor.has_value()) {
    const PairedOp* const pair = FindPair(pairs, anchor->rank, anchor->op);
    if (pair != nullptr && pair->IsPair()) {
      return {pair->predicted->start_ns, pair->measured->start_ns};
    }
  }
  if (alignment != Alignment::kMicroBatch) return starts;
  const std::vector<int> ranks = RanksOf(sides);
  if (ranks.empty()) return starts;
  const bool known = anchor.has_value() && IsValidId(anchor->op);
  const int micro_batch = known ? UnpackId(anchor->op).micro_batch : 0;
  const int rank = known ? anchor->rank : ranks.front();
  for (const Side side : kSides) {
    if (!sides.Of(side).IsPresent()) continue;
    starts[Index(side)] = StartOfMicroBatch(sides, side, rank, micro_batch);
  }
  return starts;
}

// Shift that moves the span's op to its counterpart; `nullopt` if it has none.
std::optional<std::int64_t> ShiftOf(std::span<const PairedOp> pairs, int rank, const Span& span,
                                    std::int64_t apart_ns) {
  const PairedOp* const pair = FindPair(pairs, rank, span.op);
  if (pair == nullptr || !pair->IsPair()) return std::nullopt;
  return pair->measured->start_ns - pair->predicted->start_ns - apart_ns;
}

}  // namespace

std::string_view Name(Alignment alignment) {
  constexpr std::array<std::string_view, kAlignmentCount> kNames{
      "aligned at step start", "aligned at a micro-batch", "aligned at the selected op",
      "wall clock", "warped to measured starts"};
  return kNames[static_cast<std::size_t>(alignment)];
}

// Both offsets must come from the same kind of moment. If one run lacks it, both fall back to the
// start of their step.
void AlignSides(Alignment alignment, const std::optional<Anchor>& anchor,
                std::span<const PairedOp> pairs, SidePair& sides) {
  if (alignment == Alignment::kWallClock) {
    for (SideModel& side : sides.sides) side.offset_ns = 0;
    return;
  }
  const Starts starts = StartsOf(alignment, anchor, pairs, sides);
  for (const Side side : kSides) {
    SideModel& of = sides.sides[Index(side)];
    const Side other = Other(side);
    const bool both = starts[Index(side)].has_value() &&
                      (starts[Index(other)].has_value() || !sides.Of(other).IsPresent());
    of.offset_ns = both ? *starts[Index(side)] : of.step_start_ns;
  }
}

// Shifts are taken in the order of spans, which is by rank and queue, so an op without counterpart
// moves with the one before it. Sorting afterwards restores the order by time.
std::unique_ptr<const RunView> Warped(const SidePair& sides, std::span<const PairedOp> pairs) {
  const SideModel& predicted = sides.Of(Side::kPredicted);
  const std::int64_t apart_ns = sides.Of(Side::kMeasured).step_start_ns - predicted.step_start_ns;
  auto warped = std::make_unique<RunView>(*predicted.run);
  warped->timeline.memory.clear();
  // For each simulated rank, the first lane that it represents.
  std::vector<int> lanes;
  for (const int rank : RanksOf(sides)) {
    const auto own = static_cast<std::size_t>(sides.RankOn(Side::kPredicted, rank));
    if (own >= lanes.size()) lanes.resize(own + 1, -1);
    if (lanes[own] < 0) lanes[own] = rank;
  }
  const Span* before = nullptr;
  std::int64_t shift_ns = 0;
  for (Span& span : warped->timeline.spans) {
    const bool same_queue =
        before != nullptr && before->rank == span.rank && before->queue == span.queue;
    if (!same_queue) shift_ns = 0;
    before = &span;
    const auto own = static_cast<std::size_t>(span.rank);
    if (span.step != predicted.step || own >= lanes.size() || lanes[own] < 0) continue;
    // Without a counterpart the span moves like the one before it on its queue.
    shift_ns = ShiftOf(pairs, lanes[own], span, apart_ns).value_or(shift_ns);
    span.start_ns += shift_ns;
    span.end_ns += shift_ns;
    span.ready_ns += shift_ns;
  }
  SortTimeline(warped->timeline);
  return warped;
}

}  // namespace foretrain::ui
