#include "ui/view_model/alignment.h"

#include <algorithm>
#include <array>

namespace foretrain::ui {
namespace {

using Starts = std::array<std::optional<std::int64_t>, 2>;

// Where a micro-batch begins on the rank of `side` that stands for `rank`.
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

// By how much the span's op is to move, or nothing where it has no twin.
std::optional<std::int64_t> ShiftOf(std::span<const PairedOp> pairs, int rank, const Span& span,
                                    std::int64_t apart_ns) {
  const PairedOp* const pair = FindPair(pairs, rank, span.op);
  if (pair == nullptr || !pair->IsPair()) return std::nullopt;
  return pair->measured->start_ns - pair->predicted->start_ns - apart_ns;
}

}  // namespace

std::string_view Name(Alignment alignment) {
  switch (alignment) {
    case Alignment::kStepStart:
      return "aligned at step start";
    case Alignment::kMicroBatch:
      return "aligned at a micro-batch";
    case Alignment::kSelectedOp:
      return "aligned at the selected op";
    case Alignment::kWallClock:
      return "wall clock";
    case Alignment::kWarp:
      break;
  }
  return "warped to measured starts";
}

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

std::unique_ptr<const RunView> Warped(const SidePair& sides, std::span<const PairedOp> pairs) {
  const SideModel& predicted = sides.Of(Side::kPredicted);
  const std::int64_t apart_ns =
      sides.Of(Side::kMeasured).step_start_ns - predicted.step_start_ns;
  auto warped = std::make_unique<RunView>(*predicted.run);
  warped->timeline.memory.clear();
  // The first lane of those that a simulated rank stands for.
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
    shift_ns = ShiftOf(pairs, lanes[own], span, apart_ns).value_or(shift_ns);
    span.start_ns += shift_ns;
    span.end_ns += shift_ns;
    span.ready_ns += shift_ns;
  }
  SortTimeline(warped->timeline);
  return warped;
}

}  // namespace foretrain::ui
