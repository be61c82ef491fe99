#include "sim/program/schedules/play_slots.h"

#include <algorithm>
#include <limits>

#include "sim/program/schedules/slot_walk.h"

namespace foretrain {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

PassTime TimeOf(const ChunkTimes& times, Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return times.forward;
    case Pass::kBackwardInput:
      return times.input;
    case Pass::kBackwardWeight:
      return {times.weight_s, times.weight_s};
    default:
      return times.backward;
  }
}

}  // namespace

// Event simulation whose events are slots.
PlayedSlots PlaySlots(ScheduleKind schedule, const PipelineShape& shape,
                      std::span<const ChunkTimes> times, const HopTimes& hop) {
  SlotWalk<double> walk(schedule, shape, kNever);
  FT_CHECK(times.size() == static_cast<std::size_t>(shape.p * walk.placement().chunks()));
  PlayedSlots played;
  for (const auto& rank : walk.ranks()) played.spans.emplace_back().reserve(rank.slots.size());
  // Start of a slot or transfer. Waiting for the input costs a wake-up.
  const auto start = [&](double ready_s, double free_s) {
    return ready_s > free_s ? ready_s + hop.wake_s : free_s;
  };
  const auto send = [&](double made_s, double& link_s) {
    const double arrival_s = start(made_s, link_s) + hop.send_s;
    link_s = arrival_s + hop.gap_s;
    return arrival_s;
  };
  walk.Run([&](int r, SlotWalk<double>::Rank& rank, std::span<const Slot> unit) {
    const auto time = [&](const Slot& slot) {
      return TimeOf(times[static_cast<std::size_t>(r * walk.placement().chunks() + slot.chunk)],
                    slot.pass);
    };
    double ready_s = 0, length_s = 0;
    for (const Slot& slot : unit) {
      ready_s = std::max(ready_s, walk.Ready(r, slot));
      length_s += time(slot).length_s;
    }
    if (ready_s == kNever) return false;
    const double start_s = start(ready_s, rank.now);
    rank.now = start_s + length_s;
    for (const Slot& slot : unit) {
      const bool pair = unit.size() == 2;
      walk.Deliver(r, slot, start_s + (pair ? length_s : time(slot).output_s), send);
      played.spans[static_cast<std::size_t>(r)].push_back({start_s, rank.now, ready_s, slot});
    }
    played.end_s = std::max(played.end_s, rank.now);
    return true;
  });
  return played;
}

// Spreads a rank's times evenly over its chunks and plays the slots with sends alone.
double LongestPath(ScheduleKind schedule, const PipelineShape& shape, const SlotTimes& times) {
  const Placement placement = PlacementOf(schedule, shape);
  const int share = placement.ChunksOfShare();
  const double forward_s = times.forward_s / share, input_s = times.input_s / share,
               weight_s = times.weight_s / share;
  ChunkTimes each;
  each.forward = {forward_s, forward_s};
  each.backward = {input_s + weight_s, input_s + weight_s};
  each.input = {input_s, input_s};
  each.weight_s = weight_s;
  const std::vector<ChunkTimes> all(static_cast<std::size_t>(shape.p * placement.chunks()), each);
  return PlaySlots(schedule, shape, all, {times.send_s}).end_s;
}

}  // namespace foretrain
