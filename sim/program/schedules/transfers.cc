#include "sim/program/schedules/transfers.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/result.h"

namespace foretrain {
namespace {

// Place of the stage that reads the output of a slot: the stage after it, or before it for
// gradients. `nullopt` at the ends of the model and for weight gradients.
std::optional<StagePlace> Target(const Placement& placement, int rank, const Slot& slot) {
  if (slot.pass == Pass::kBackwardWeight) return std::nullopt;
  const int stage = placement.StageOf(rank, slot.chunk) + (slot.pass == Pass::kForward ? 1 : -1);
  if (stage < 0 || stage == placement.stages()) return std::nullopt;
  return placement.PlaceOf(stage, placement.DirectionOf(slot.chunk));
}

// The transfer of a slot's output; `nullopt` if the reader is on the same rank.
std::optional<Transfer> SendOf(const Placement& placement, int rank, const Slot& slot) {
  const std::optional<StagePlace> to = Target(placement, rank, slot);
  if (!to || to->rank == rank) return std::nullopt;
  return Transfer{slot.pass == Pass::kForward ? Pass::kForward : Pass::kBackward,
                  placement.StageOf(rank, slot.chunk), slot.micro_batch,
                  placement.GoesToNext({rank, slot.chunk}, *to), slot.for_next_step};
}

// Number of the slot that reads a tensor, by (chunk, forward, micro-batch, ahead). The second slot
// of a pair reads when the first does.
using Readers = std::map<std::tuple<int, bool, int, bool>, std::size_t>;

Readers ReadersOf(const std::vector<Slot>& slots) {
  Readers readers;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].pass == Pass::kBackwardWeight) continue;
    const bool second = i > 0 && slots[i - 1].paired;
    readers[{slots[i].chunk, slots[i].pass == Pass::kForward, slots[i].micro_batch,
             slots[i].for_next_step}] = second ? i - 1 : i;
  }
  return readers;
}

// The transfers from `sender` to `rank` in one direction, in the sender's order, each with the slot
// that reads it. If only the next step's slots read it, that is slot `last`.
std::vector<std::pair<Transfer, std::size_t>> Stream(const Placement& placement,
                                                     const std::vector<Slot>& senders, int sender,
                                                     int rank, bool down, const Readers& readers,
                                                     std::size_t last) {
  std::vector<std::pair<Transfer, std::size_t>> stream;
  for (const Slot& slot : senders) {
    const std::optional<Transfer> transfer = SendOf(placement, sender, slot);
    if (!transfer || transfer->down != down) continue;
    const StagePlace to = *Target(placement, sender, slot);
    if (to.rank != rank) continue;
    const auto reader = readers.find(
        {to.chunk, transfer->pass == Pass::kForward, slot.micro_batch, slot.for_next_step});
    FT_CHECK(reader != readers.end() || transfer->for_next_step);
    stream.emplace_back(*transfer, reader != readers.end() ? reader->second : last);
  }
  return stream;
}

}  // namespace

// The sender's order is binding, because transfers of one direction share a queue on both sides.
// Walking backwards over the stream moves a receive forward if a later transfer is needed earlier.
std::vector<SlotWithTransfers> SlotsWithTransfers(ScheduleKind schedule, const PipelineShape& shape,
                                                  int rank) {
  const Placement placement = PlacementOf(schedule, shape);
  const std::vector<Slot> slots = MakeSlots(schedule, shape, rank);
  const Readers readers = ReadersOf(slots);
  std::vector<SlotWithTransfers> out(slots.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    out[i].slot = slots[i];
    out[i].send = SendOf(placement, rank, slots[i]);
  }
  for (const bool down : {true, false}) {
    const int sender = (rank + (down ? shape.p - 1 : 1)) % shape.p;
    if (sender == rank) continue;
    auto stream = Stream(placement, MakeSlots(schedule, shape, sender), sender, rank, down, readers,
                         slots.size() - 1);
    // No receive may come after one that was sent later.
    std::size_t latest = slots.size();
    for (auto entry = stream.rbegin(); entry != stream.rend(); ++entry) {
      entry->second = latest = std::min(latest, entry->second);
    }
    for (const auto& [transfer, before] : stream) out[before].receives.push_back(transfer);
  }
  return out;
}

}  // namespace foretrain
