// A member's part of a call, once all have arrived: it copies and sums into its own memory.
#include <algorithm>
#include <numeric>
#include <vector>

#include "runtime/device/device_status.h"
#include "runtime/inproc/addresses.h"
#include "runtime/inproc/channel.h"
#include "runtime/inproc/part_of.h"

namespace foretrain {
// All-reduce is a reduce-scatter of equal parts, a barrier, and an all-gather of the results. The
// barrier is needed because the second half reads what other members wrote in the first.
Result<void> InprocChannel::Move(int member, std::int64_t sequence, Slot& slot, FtQueue* queue) {
  const CommCall& call = slot.calls[static_cast<std::size_t>(member)];
  const bool all_reduce = call.kind == OpKind::kAllReduce;
  if (all_reduce || call.kind == OpKind::kReduceScatter) FT_TRY(Reduce(slot, member, queue));
  if (all_reduce) FT_TRY(Record(slot, kReduced, member, queue));
  FT_TRY(Pass(slot, kReduced, member, sequence, /*wait=*/all_reduce));
  if (all_reduce) FT_TRY(HoldUp(slot, kReduced, member, queue));
  if (all_reduce || call.kind == OpKind::kAllGather) FT_TRY(Gather(slot, member, queue));
  if (call.kind == OpKind::kAllToAllV) FT_TRY(ExchangeParts(slot, member, queue));
  if (call.kind == OpKind::kAllToAll || call.kind == OpKind::kRotate) {
    FT_TRY(Exchange(slot, member, queue));
  }
  if (call.kind == OpKind::kRecv) {
    FT_TRY(Copy(queue, call.out, slot.calls[0].in, call.elements * BytesOf(call.dtype)));
  }
  return {};
}

// Events are made at first use and then reused by all calls of the slot. A synchronous device needs
// none: its work has ended.
Result<void> InprocChannel::Record(Slot& slot, Stage stage, int member, FtQueue* queue) const {
  if (!IsLater()) return {};
  DeviceEvent& event =
      slot.events[static_cast<std::size_t>(member)][static_cast<std::size_t>(stage)];
  if (event.get() == nullptr) {
    const int rank = members_[static_cast<std::size_t>(member)];
    const int device = context_.devices[static_cast<std::size_t>(rank)];
    FT_ASSIGN(event, DeviceEvent::Make(context_.api, device, /*timed=*/false));
  }
  return event.RecordOn(queue);
}

// The device waits and not this thread. The events were recorded before the members passed the
// stage, so none of an earlier call is waited for.
Result<void> InprocChannel::HoldUp(const Slot& slot, Stage stage, int member,
                                   FtQueue* queue) const {
  if (!IsLater()) return {};
  for (std::size_t other = 0; other < slot.events.size(); ++other) {
    if (static_cast<int>(other) == member) continue;
    FT_TRY(slot.events[other][static_cast<std::size_t>(stage)].HoldUp(queue));
  }
  return {};
}

// Sums this member's part over all members, in member order, so that every run gives the same bits.
Result<void> InprocChannel::Reduce(const Slot& slot, int member, FtQueue* queue) {
  const CommCall& call = slot.calls[static_cast<std::size_t>(member)];
  const std::int64_t size = BytesOf(call.dtype);
  const bool scatter = call.kind == OpKind::kReduceScatter;
  const std::int64_t shard = call.elements / Count();
  const Part part = scatter ? Part{shard * member, shard} : PartOf(call.elements, Count(), member);
  if (part.size == 0) return {};
  void* const out = scatter ? call.out : At(call.out, part.begin * size);
  std::vector<const void*>& sources = sources_[static_cast<std::size_t>(member)];
  sources.clear();
  if (call.accumulate) sources.push_back(out);
  for (const CommCall& other : slot.calls) sources.push_back(At(other.in, part.begin * size));
  const FtSumRanks sum{sources.data(), out,
                       part.size,      static_cast<std::int32_t>(sources.size()),
                       call.maximum,   call.dtype};
  return Checked(context_.api.sum_ranks(queue, &sum), "sum over ranks",
                 context_.api.queue_error(queue));
}

// Copies the parts of all members; the own part may already be in place.
Result<void> InprocChannel::Gather(const Slot& slot, int member, FtQueue* queue) const {
  const CommCall& call = slot.calls[static_cast<std::size_t>(member)];
  const std::int64_t size = BytesOf(call.dtype);
  const bool gather = call.kind == OpKind::kAllGather;
  const std::int64_t shard = call.elements / Count();
  for (std::int64_t other = 0; other < Count(); ++other) {
    const Part part = gather ? Part{shard * other, shard} : PartOf(call.elements, Count(), other);
    const CommCall& theirs = slot.calls[static_cast<std::size_t>(other)];
    const void* const from = gather ? theirs.in : At(theirs.out, part.begin * size);
    void* const to = At(call.out, part.begin * size);
    if (to != from) FT_TRY(Copy(queue, to, from, part.size * size));
  }
  return {};
}

// Members read from each other and write only their own `out`, so copies of different members need
// no order.
Result<void> InprocChannel::Exchange(const Slot& slot, int member, FtQueue* queue) const {
  const CommCall& call = slot.calls[static_cast<std::size_t>(member)];
  const std::int64_t bytes = call.elements * BytesOf(call.dtype);
  if (call.kind == OpKind::kRotate) {
    const std::int64_t before = (member + Count() - 1) % Count();
    return Copy(queue, call.out, slot.calls[static_cast<std::size_t>(before)].in, bytes);
  }
  const std::int64_t part = bytes / Count();
  for (std::int64_t other = 0; other < Count(); ++other) {
    const CommCall& theirs = slot.calls[static_cast<std::size_t>(other)];
    FT_TRY(Copy(queue, At(call.out, part * other), At(theirs.in, part * member), part));
  }
  return {};
}

// Parts of different length: this member's part in a peer's `in` starts after the parts for members
// before it.
Result<void> InprocChannel::ExchangeParts(const Slot& slot, int member, FtQueue* queue) const {
  const CommCall& call = slot.calls[static_cast<std::size_t>(member)];
  const std::int64_t size = BytesOf(call.dtype);
  std::int64_t to = 0;
  for (std::int64_t other = 0; other < Count(); ++other) {
    const CommCall& theirs = slot.calls[static_cast<std::size_t>(other)];
    const std::int64_t from =
        std::accumulate(theirs.in_parts, theirs.in_parts + member, std::int64_t{0});
    const std::int64_t part = call.out_parts[other];
    FT_TRY(Copy(queue, At(call.out, to * size), At(theirs.in, from * size), part * size));
    to += part;
  }
  return {};
}

Result<void> InprocChannel::Copy(FtQueue* queue, void* to, const void* from,
                                 std::int64_t bytes) const {
  if (bytes == 0) return {};
  return Checked(context_.api.copy(queue, to, from, bytes), "copy between ranks",
                 context_.api.queue_error(queue));
}

}  // namespace foretrain
